"""Loaders of programs: training has each row once, also after kills; their mistakes are told."""

from cluster import *

ROWS = 4000
# Of 40 steps. Loaders are only some batches ahead.
OVERRIDES = ["data.train=[]", "checkpoint.every_steps=10", "training.loader_queue_batches=2"]

# Argument: index of the loader. Loaders take turns by batches, so that their number does not matter.
LOADER = """
    index = int(sys.argv[1])
    random = np.random.default_rng(3)
    user, item = random.integers(0, 2**64 - 1, 300, np.uint64)[random.integers(0, 300, (2, ROWS))]
    number = np.arange(ROWS)
    own = number[number // 100 % COUNT == index]
    labels = (user + item) % 3 == 0
    mistakes = []

    def expect_error(*parts, features={"user": user[:2], "item": item[:2]}, dense=np.zeros((2, 2)), labels=labels[:2],
                     weights=None):
        try:
            loader.feed_ids(features, dense, labels, weights)
            mistakes.append(f"no error {parts}")
        except simurgh.InvalidError as error:
            if any(part not in str(error) for part in parts):
                mistakes.append(f"not {parts}: {error}")

    with simurgh.Loader(index=index) as loader:
        if MISTAKES:
            expect_error("'shop'", "user, item", features={"shop": user[:2]})
            expect_error("'user'", "(3,)", "(2,)", features={"user": user[:3]})
            expect_error("'user'", "float64", "integers", features={"user": user[:2] / 2})
            expect_error("'user'", "-1", features={"user": [1, -1]})
            expect_error("offsets", "'user'", "(2,)", "(3,)", features={"user": ([0, 1], [5])})
            expect_error("'user'", "ascend", features={"user": ([0, 2, 1], [5])})
            expect_error("'user'", "ascend", features={"user": ([1, 1, 1], [5])})
            expect_error("ids", "'user'", "(3,)", "(2,)", features={"user": ([0, 1, 2], [5, 6, 7])})
            expect_error("weights", "'user'", "(1,)", "(2,)", features={"user": ([0, 1, 2], [5, 6], [1])})
            expect_error("'user'", "(offsets, ids)", features={"user": ([0, 1, 2],)})
            expect_error("'user'", "<U1", "integers", features={"user": ["a", "b"]})
            expect_error("dense", "(2, 3)", "(2, 2)", dense=np.zeros((2, 3)))
            expect_error("dense is missing", dense=None)
            expect_error("dense", "(1, 2)", "(2, 2)", dense=np.zeros((1, 2)))
            expect_error("labels", labels=None)
            expect_error("weights", "(3,)", "(2,)", weights=np.ones(3))
            expect_error("weights", "sample 1 has -1", weights=[1, -1])
            expect_error("'user'", "id 1", "weight nan", features={"user": ([0, 1, 2], [5, 6], [1, np.nan])})
            pathlib.Path(f"{name[:-7]}-mistakes.json").write_text(json.dumps(mistakes))
        own = own[loader.rows:]
        sizes = iter([37, 250, 1, 100, 64] * 1000)
        while len(own) > 0:
            part, own = np.split(own, [next(sizes)])
            if RAISES and part[0] > 1500 and index == COUNT - 1:
                raise ValueError("a bad day")
            if not loader.feed_ids({"user": user[part], "item": (np.arange(len(part) + 1), item[part])},
                                   np.stack([part, part % 24], 1), labels[part]):
                break
    """

PROGRAM = """
    class Seen:
        rows = torch.zeros(0)

        def state_dict(self):
            return {"rows": self.rows}

        def load_state_dict(self, state):
            self.rows = state["rows"]

    def start(index):
        return subprocess.Popen([sys.executable, "-B", f"{name}-loader.py", str(index)])

    loaders = [start(index) for index in range(COUNT)]
    with simurgh.torch.Worker() as worker:
        net, seen = Net(worker.inputs), Seen()
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        worker.track(net=net, optimizer=optimizer, seen=seen)
        for batch in worker:
            seen.rows = torch.cat([seen.rows, batch.dense[:, 0]])
            batch.dense[:] = (batch.dense - 12) / 4000
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            for step, victim in PLAN:
                if step_is(batch, step, victim) and victim == "program":
                    os.kill(os.getpid(), signal.SIGKILL)
                elif batch.step == step and victim == "loader":
                    loaders[-1].kill()
                    loaders[-1].wait()
                    loaders[-1] = start(COUNT - 1)
            worker.finish(batch, logits)
    codes = [loader.wait() for loader in loaders]
    pathlib.Path(f"{name}.json").write_text(json.dumps({"rows": seen.rows.tolist(), "codes": codes}))
    """


def train(name, count, plan=(), raises=False, mistakes=False, code=0):
    """Trains with this number of loaders. Returns what the program has written."""
    texts = []
    for text in (PROGRAM, LOADER):
        for word, value in {"COUNT": count, "PLAN": list(plan), "RAISES": raises, "MISTAKES": mistakes, "ROWS": ROWS}.items():
            text = text.replace(word, repr(value))
        texts.append(text)
    write_program(f"{name}-loader", texts[1])
    training = finished(name, texts[0], *OVERRIDES, loaders=count, code=code)
    print(f"{name}: {training.seconds:.1f} s", flush=True)
    path = pathlib.Path(f"{name}.json")
    return (json.loads(path.read_text()) if path.exists() else None), training


def main():
    click_files()
    digests = {}
    for name, count, plan in (("one", 1, []), ("two", 2, [(12, "loader"), (25, "program")])):
        done, training = train(name, count, plan, mistakes=name == "one")
        expect(done["codes"] == [0] * count, f"{name}: the loaders end: {done['codes']}")
        expect(sorted(done["rows"]) == list(range(ROWS)), f"{name}: each row once, of {len(done['rows'])}")
        expect(training.starts() == len([one for one in plan if one[1] == "program"]), f"{name}: {training.err}")
        digests[name] = model_digest(training.model)
    expect(digests["one"] == digests["two"], f"1 and 2 loaders, of which one is killed, give the same model: {digests}")
    mistakes = json.loads(pathlib.Path("one-mistakes.json").read_text())
    expect(mistakes == [], f"mistakes: {mistakes}")
    done, training = train("raises", 2, raises=True, code=3)
    expect(done is None and training.starts() == 0, f"training fails at once: {training.err}")
    expect("ValueError: a bad day" in training.err, f"with the loader's text: {training.err}")


if __name__ == "__main__":
    main()
