"""The versions of a model's folder, and simurgh.torch.Server: its answers, versions and errors."""

import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import threading

from hosted import (BIN, Net, ROOT, click_files, example, expect, free_port, log, loss_of, program, raises, simurgh, skip,
                    torch, until)

import numpy as np

try:
    import polars
except ImportError:
    skip("polars is missing")


def train(folder, *overrides):
    """Trains a hosted network, with a checkpoint after 10 steps each; every second one is a delta."""
    path = click_files()
    settings = [f"checkpoint.directory={folder}", "checkpoint.every_steps=10", "checkpoint.full_every=2",
                "checkpoint.keep=10", *overrides]
    with simurgh.torch.Worker(path, overrides=settings, log_level="warn") as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            worker.finish(batch, logits)


# The list has deltas, the version in use, the pin and what is damaged.
def check_versions():
    model = simurgh.Model("hosted-model")
    found = model.versions()
    expect([one.step for one in found] == [10, 20, 30, 40], f"the steps: {found}")
    expect([one.parent for one in found] == [None, 10, None, 30], f"the parents of deltas: {found}")
    expect([one.used for one in found] == [False, False, False, True], f"the version in use: {found}")
    expect(all(one.seconds > 1.7e9 and one.problem is None and not one.pinned for one in found), f"the rest: {found}")
    pathlib.Path("hosted-model/pin").write_text("step-20\n")
    expect([one.pinned for one in model.versions()] == [False, True, False, False], "the pin")
    pathlib.Path("hosted-model/pin").unlink()
    shutil.copytree("hosted-model", "damaged-model")
    older = simurgh.Model("damaged-model", version=30)
    expect([one.used for one in older.versions()] == [False, False, True, False], "a version that was chosen")
    manifest = pathlib.Path("damaged-model/step-40/manifest.json")
    manifest.write_text(manifest.read_text()[:-100])
    problem = older.versions()[-1].problem
    expect(problem is not None and "manifest.json" in problem, f"a damaged manifest: {problem}")
    shutil.rmtree("damaged-model")
    raises(simurgh.InvalidError, older.versions, "damaged-model")


# A follower tells why it does not use the newest version.
def check_refused():
    shutil.copytree("hosted-model", "refused-model")
    folder = pathlib.Path("refused-model")
    (folder / "step-40").rename("step-40")
    (folder / "latest").write_text("step-30\n")
    with simurgh.Model(folder, follow=True, log_level="error") as model:
        rows = next(pathlib.Path("step-40/rows/user").iterdir())
        rows.write_bytes(rows.read_bytes()[:-8])
        pathlib.Path("step-40").rename(folder / "step-40")
        (folder / "latest").write_text("step-40\n")
        until(lambda: model.versions()[-1].problem is not None, "the version is refused")
        found = model.versions()
        expect(str(rows.name) in found[-1].problem and found[-2].used, f"the refused version: {found}")


# Both commands say what to run instead.
def check_commands():
    for words in (["predict", "--input", "later.csv", "--output", "x.csv"], ["predict", "--input", "later.csv", "--evaluate"],
                  ["serve", "--listen", "127.0.0.1:0"]):
        done = program("simurgh", words[0], "--model", "hosted-model", *words[1:], code=2)
        expect("simurgh.torch" in done.all and "hosted-model" in done.all, f"{words[0]}: {done.all}")


class Client:
    """A connection to a server."""

    def __init__(self, port, name="hosted-model"):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.name = name

    def predict(self, rows, version=None):
        """Returns (status, predictions, step); of an error (status, its text, None)."""
        place = f"/versions/{version}" if version is not None else ""
        body = json.dumps({"inputs": {name: rows[name].cast(polars.String).to_list() for name in COLUMNS}})
        self.connection.request("POST", f"/v1/models/{self.name}{place}:predict", body)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            return response.status, answer["error"], None
        return 200, np.array(answer["outputs"], np.float32), int(answer["model_version"])


COLUMNS = ("user", "item", "price", "hour")
ADULT = ("age workclass fnlwgt education education_num marital_status occupation relationship race gender capital_gain "
         "capital_loss hours_per_week native_country income").split()
QUIET = {"listen": "127.0.0.1:0", "log_level": "error"}


def reference(folder, rows, step):
    """The probabilities of a version, computed without the server."""
    with simurgh.Model(folder, version=step) as model:
        net = Net(model.inputs, seed=9)
        simurgh.torch.load(model, net=net)
        return 1 / (1 + np.exp(-simurgh.torch.predict(model, net, rows).astype(np.float64)))


# Metrics are those of the training, of built-in networks those of the command.
def check_evaluations():
    rows = polars.read_csv("later.csv")
    with simurgh.Model("hosted-model") as model:
        net = Net(model.inputs, seed=8)
        simurgh.torch.load(model, net=net)
        found = simurgh.torch.evaluate(model, net, rows)
        last = simurgh.checkpoints("hosted-model")[-1]["metrics"]
        for name in ("test_auc", "test_logloss"):
            expect(abs(found[name] - last[name]) < 1e-4, f"{name}: {found}, of the training: {last}")
        logits = simurgh.torch.predict(model, net, rows)
        # A bad row, and one without a label, are left out.
        part = rows.head(50).with_columns(price=polars.Series(["x"] + rows["price"][1:50].cast(polars.String).to_list()))
        expect(model.evaluate(part, logits[:50])["test_auc"] == model.evaluate(rows[1:50], logits[1:50])["test_auc"],
               "a bad row is left out")
        raises(simurgh.InvalidError, lambda: model.evaluate(rows, logits[:-1]), "999 numbers for 1000 rows")
        raises(simurgh.InvalidError, lambda: model.evaluate(rows, np.append(logits, 0)), "1001 numbers for 1000 rows")
        raises(simurgh.InvalidError, lambda: model.evaluate(rows.drop("label"), logits), "label")
        raises(simurgh.InvalidError, lambda: model.evaluate(rows.head(0), logits[:0]), "0 rows")
        logits[7] = np.nan
        raises(simurgh.InvalidError, lambda: model.evaluate(rows, logits), "row 7")
        raises(simurgh.InvalidError, lambda: model.evaluate(rows), "program")


# Answers are those of the network, in both protocols, and of each version its own, while versions change and clients
# ask for older ones.
def check_server():
    rows = polars.read_csv("later.csv").head(50)
    wanted = {step: reference("hosted-model", rows, step) for step in (10, 20, 30, 40)}
    expect(np.abs(wanted[30] - wanted[40]).max() > 1e-3, "versions differ")
    pin = pathlib.Path("hosted-model/pin")
    pin.write_text("10")
    with simurgh.torch.Server("hosted-model", overrides=["serving.poll=5ms", "serving.max_batch_rows=64"], **QUIET) as server:
        net = Net(server.inputs, seed=5)
        server.track(net=net)
        expect(net.training, "the network is in training mode before")
        server.start()
        client = Client(server.port)
        status, found, step = client.predict(rows)
        expect(status == 200 and step == 10, f"the pinned version answers: {found}")
        expect(np.abs(found - wanted[10]).max() < 1e-6, "predictions are those of the network")
        bad, tallies, ends = [], [set() for _ in range(4)], threading.Event()

        def ask(thread):
            own = Client(server.port)
            while not ends.is_set():
                # Some clients name the version before the newest one, so that weights alternate.
                newest = max(tallies[thread] | {10})
                status, found, step = own.predict(rows, version=newest if thread == 0 else None)
                if status == 404 and thread == 0:  # Dropped meanwhile.
                    status, found, step = own.predict(rows)
                if status != 200:
                    bad.append(found)
                    return
                tallies[thread].add(step)
                if np.abs(found - wanted[step]).max() > 1e-6:
                    bad.append(f"step {step} differs by {np.abs(found - wanted[step]).max()}")

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for step in (20, 30, 40, 20, 30, 40):
            pin.write_text(str(step))
            until(lambda: client.predict(rows)[2] == step, f"step {step} answers")
        ends.set()
        for thread in threads:
            thread.join()
        expect(not bad, f"answers are of one version: {bad[:3]}")
        expect(all(len(one) > 1 for one in tallies[1:]), f"versions changed meanwhile: {tallies}")
    expect(net.training, "the network is in training mode again")
    pin.unlink()


# A version that cannot be restored is not used, and leaves the one in use as it is.
def check_restores():
    rows = polars.read_csv("later.csv").head(50)
    pin = pathlib.Path("hosted-model/pin")
    pin.write_text("10")
    wanted = {step: reference("hosted-model", rows, step) for step in (10, 30)}

    class Picky(Net):
        bad = None

        def load_state_dict(self, state, *words):
            super().load_state_dict(state, *words)
            if self.bad is not None and torch.equal(state["layers.0.weight"], self.bad):
                raise RuntimeError("not these")  # They are loaded nevertheless.

    with log() as path, simurgh.torch.Server("hosted-model", overrides=["serving.poll=5ms"],
                                             **{**QUIET, "log_level": "warn"}) as server:
        net = Picky(server.inputs)
        server.track(net=net)
        server.start()
        client = Client(server.port)
        with simurgh.Model("hosted-model", version=20) as model:
            other = Net(model.inputs)
            simurgh.torch.load(model, net=other)
        net.bad = other.state_dict()["layers.0.weight"]
        pin.write_text("20")
        until(lambda: "step 20 is not used: the program cannot restore the network of step 20: RuntimeError: not these"
              in path.read_text(), "step 20 is refused")
        status, found, step = client.predict(rows)
        expect(step == 10 and np.abs(found - wanted[10]).max() < 1e-6, f"step 10 answers as before: {step} {found}")
        pin.write_text("30")
        until(lambda: client.predict(rows)[2] == 30, "a later version is used")
        expect(np.abs(client.predict(rows)[1] - wanted[30]).max() < 1e-6, "with its weights")
    pin.unlink()


# Weights and rows of a prediction are of one version, also where the model follows. Modes of modules stay.
def check_steps():
    rows = polars.read_csv("later.csv").head(50)
    pin = pathlib.Path("hosted-model/pin")
    pin.write_text("10")
    with simurgh.Model("hosted-model", follow=True, overrides=["serving.poll=5ms"], log_level="error") as model:
        until(lambda: model.step == 10, "the pinned version is used")
        net = Net(model.inputs)
        simurgh.torch.load(model, net=net)
        net.layers[3].eval()
        simurgh.torch.predict(model, net, rows)
        expect(net.training and not net.layers[3].training, "modes of modules are as before")
        pin.write_text("20")
        until(lambda: model.step == 20, "another version is used")
        raises(simurgh.InvalidError, lambda: simurgh.torch.predict(model, net, rows), "step 10", "step 20", "load")
        simurgh.torch.load(model, net=net)
        found = 1 / (1 + np.exp(-simurgh.torch.predict(model, net, rows).astype(float)))
        expect(np.abs(found - reference("hosted-model", rows, 20)).max() < 1e-6, "after the load it predicts")
        half = simurgh.torch.predict(model, net, rows, lambda features: net(features.dense, features.embeddings).bfloat16())
        expect(half.dtype == np.float32, f"16-bit outputs are numbers of numpy: {half.dtype}")
    pin.unlink()


# A version with other inputs than the first one is not used: the program would read arrays of other widths.
def check_inputs():
    train("narrow-model", "data.columns.3.kind=skip", "training.max_steps=50", "training.epochs=2")
    shutil.copytree("hosted-model", "changed-model")

    class Careless(Net):
        def load_state_dict(self, state, *words):
            if state["layers.0.weight"].shape == self.state_dict()["layers.0.weight"].shape:
                super().load_state_dict(state, *words)

    rows = polars.read_csv("later.csv").head(50)
    with log() as path, simurgh.torch.Server("changed-model", overrides=["serving.poll=5ms"],
                                             **{**QUIET, "log_level": "warn"}) as server:
        server.track(net=Careless(server.inputs))
        server.start()
        shutil.copytree("narrow-model/step-50", "changed-model/step-50")
        pathlib.Path("changed-model/latest.new").write_text("step-50\n")
        os.rename("changed-model/latest.new", "changed-model/latest")
        until(lambda: "step 50 is not used" in path.read_text() and "inputs of other widths" in path.read_text(),
              "step 50 is refused for its inputs")
        status, found, step = Client(server.port, "changed-model").predict(rows)
        expect(step == 40 and np.abs(found - reference("hosted-model", rows, 40)).max() < 1e-6, f"step 40 answers: {status} {found}")


# Tokens are read again at a reload.
def check_tokens():
    path, old, new = pathlib.Path("tokens"), secrets.token_hex(), secrets.token_hex()

    def write(text):
        path.write_text(text + "\n")
        path.chmod(0o600)

    def status(token):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/v2/models/hosted-model", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status

    write(old)
    with simurgh.torch.Server("hosted-model", overrides=[f"serving.token_file={path.resolve()}"], **QUIET) as server:
        server.track(net=Net(server.inputs))
        server.start()
        expect((status(old), status(new)) == (200, 401), "the first token is used")
        write(new)
        server.reload()
        expect((status(old), status(new)) == (401, 200), "the second token is used")
        write("short")
        raises(simurgh.InvalidError, server.reload, "tokens", "32")
        expect((status(old), status(new)) == (401, 200), "after an error nothing has changed")


# Rows are where the configuration of the server has them, as for simurgh serve.
def check_places():
    rows = polars.read_csv("later.csv").head(50)
    port = free_port()
    pathlib.Path("remote.yaml").write_text(f"serving: {{model: hosted-model, rows: remote, servers: ['127.0.0.1:{port}']}}\n"
                                           "rpc: {security: loopback}\n")
    wanted = reference("hosted-model", rows, 40)
    remote = {"config": "remote.yaml", "model": None}
    with subprocess.Popen([BIN / "row-server", "--config", "remote.yaml", "--index", "0", "--log-level", "error"],
                          stdin=subprocess.DEVNULL) as row_server:
        for settings, far in ((remote, 1e-6), ({"overrides": ["serving.rows=mapped"]}, 1e-6),
                              ({"overrides": ["serving.row_precision=int8"]}, 0.01)):
            with simurgh.torch.Server(**{"model": "hosted-model", **QUIET, **settings}) as server:
                server.track(net=Net(server.inputs, seed=5))
                server.start()
                status, found, _ = Client(server.port).predict(rows)
                expect(status == 200 and np.abs(found - wanted).max() < far, f"{settings}: {found}")
        row_server.terminate()
    expect(row_server.returncode == 0, "the server of rows has ended")


# A program without PyTorch gets arrays.
def check_arrays():
    rows = polars.read_csv("later.csv").head(50)
    weights = {}

    def forward(batch):
        inputs = np.concatenate([batch.dense, batch.joined], 1)
        one = inputs @ weights["layers.0.weight"].T + weights["layers.0.bias"]
        scale = weights["layers.1.weight"] / np.sqrt(weights["layers.1.running_var"] + 1e-5)
        one = (one - weights["layers.1.running_mean"]) * scale + weights["layers.1.bias"]
        return np.maximum(one, 0) @ weights["layers.4.weight"].T + weights["layers.4.bias"]

    with simurgh.Server("hosted-model", **QUIET) as server:
        server.track(forward=forward, restore=lambda state: weights.update(state["objects"]["net"]))
        server.start()
        status, found, _ = Client(server.port).predict(rows)
        expect(status == 200 and np.abs(found - reference("hosted-model", rows, 40)).max() < 1e-6, f"arrays: {found}")
        child = os.fork()
        if child == 0:
            try:
                server.stop()
            except simurgh.InvalidError as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(1)
        expect(os.waitpid(child, 0)[1] == 0, "a child cannot use the server")
        expect(Client(server.port).predict(rows)[0] == 200, "the server goes on after a fork")


# Faults of the program fail their requests, and the server goes on.
def check_faults():
    rows = polars.read_csv("later.csv").head(4)
    mode = []

    class Faulty(Net):
        def forward(self, dense, embeddings):
            logits = super().forward(dense, embeddings)
            if not mode:
                return logits
            return {"raise": lambda: 1 / 0, "shape": lambda: logits[:-1], "two": lambda: torch.stack([logits, logits], 1),
                    "nan": lambda: logits * float("nan"), "dtype": lambda: logits.to(torch.complex64),
                    "list": lambda: ["a"] * len(logits), "none": lambda: None,
                    "half": lambda: logits.to(torch.bfloat16), "double": lambda: logits.double(),
                    "column": lambda: logits[:, None]}[mode[0]]()

    with simurgh.torch.Server("hosted-model", **QUIET) as server:
        raises(simurgh.InvalidError, server.run, "track")
        raises(simurgh.InvalidError, server.track, "net")
        raises(simurgh.InvalidError, lambda: server.track(other=Net(server.inputs)), "other", "net")
        raises(RuntimeError, lambda: server.track(net=torch.nn.Linear(3, 1)), "weight")
        server.track(net=Faulty(server.inputs))
        server.start()
        raises(simurgh.InvalidError, server.start, "started")
        client = Client(server.port)
        status, good, _ = client.predict(rows)
        expect(status == 200, f"a good answer: {good}")
        with log() as path:
            for fault, status, part in (("raise", 500, "ZeroDivisionError: division by zero"), ("shape", 500, "(3,)"),
                                        ("two", 500, "(4, 2)"), ("nan", 400, "not finite"), ("dtype", 500, "complex64"),
                                        ("list", 500, "<U1"), ("none", 500, "NoneType")):
                mode[:] = [fault]
                for _ in range(2):
                    found, text, _ = client.predict(rows)
                    expect(found == status and part in str(text), f"{fault}: {found} {text}, expected {status} with {part}")
        expect(path.read_text().count("ZeroDivisionError: ") == 1, "a fault is printed once, with its trace")
        for fine, far in (("half", 0.01), ("double", 1e-6), ("column", 1e-6)):
            mode[:] = [fine]
            status, found, _ = client.predict(rows)
            expect(status == 200 and np.abs(found - good).max() < far, f"{fine}: {found}")
        mode[:] = []
        expect((client.predict(rows)[1] == good).all(), "the server goes on")
        raises(simurgh.InvalidError, lambda: simurgh.torch.Server("hosted-model", listen=server.address), "in use")
    raises(simurgh.InvalidError, lambda: server.ready, "closed")


# What cannot be served is told at the start.
def check_models():
    settings = ("--set", "checkpoint.directory=built-in-model", "--set", "training.max_steps=2")
    program("nn-worker", "--config", example("adult", model=True), "--standalone", *settings)
    open_server = lambda *words, **named: simurgh.torch.Server(*words, **{**QUIET, **named})
    test = ROOT / "config/data/adult/adult.test.csv.zst"
    done = program("simurgh", "predict", "--model", "built-in-model", "--input", test, "--evaluate")
    rows = polars.read_csv(test, has_header=False, new_columns=ADULT)
    with simurgh.Model("built-in-model") as model:
        found = model.evaluate(rows)
        expect(found["test_auc"] == done.value("test_auc") and found["test_logloss"] == done.value("test_logloss"),
               f"metrics are those of simurgh predict: {found}, {done.all}")
    raises(simurgh.InvalidError, lambda: open_server("built-in-model"), "built-in-model", "configuration")
    raises(simurgh.InvalidError, lambda: open_server("nothing-here"), "nothing-here")
    raises(simurgh.InvalidError, open_server, "model")
    raises(simurgh.InvalidError, lambda: open_server("hosted-model", listen="0.0.0.0:0"), "loopback")
    raises(simurgh.InvalidError, lambda: open_server("hosted-model", overrides=["serving.none=1"]), "serving.none")
    # Weights of another step fail the probe.
    shutil.copytree("hosted-model", "mixed-model")
    weights = pathlib.Path("mixed-model/step-40/program.safetensors")
    with simurgh.torch.Server("mixed-model", **QUIET) as server:
        net = Net(server.inputs)
        server.track(lambda batch: net(batch.dense, batch.embeddings) + 1, net=net)
        raises(simurgh.InvalidError, server.start, "probe.csv", "step 40")
    expect(weights.exists(), "the model stays")


# serve() in a program: SIGTERM answers what has arrived, and ends it with 0.
def check_signals():
    text = f"""
import sys
sys.path[:0] = {[str(ROOT / "tests/python"), str(ROOT / "services/python")]!r}
folder = {os.getcwd()!r}
from hosted import Net, simurgh
class Loud(Net):
    def forward(self, dense, embeddings):
        print("batch", flush=True)
        return super().forward(dense, embeddings)
with simurgh.Model(folder + "/hosted-model") as model:
    net = Loud(model.inputs)
simurgh.torch.serve(folder + "/hosted-model", net=net, listen="127.0.0.1:" + sys.argv[1], log_level="warn")
print("the end")
"""
    for number in (signal.SIGTERM, signal.SIGINT):
        port = free_port()
        with subprocess.Popen([sys.executable, "-B", "-c", text, str(port)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            expect(child.stdout.readline() == "batch\n", "the probe is predicted")
            rows = polars.read_csv("later.csv").head(4)
            until(lambda: Client(port).predict(rows)[0] == 200, "the server answers")
            child.send_signal(number)
            output, errors = child.communicate(timeout=60)
            expect(child.returncode == 0 and output.endswith("the end\n"), f"exit code {child.returncode}: {output}{errors}")


train("hosted-model")
check_versions()
check_refused()
check_commands()
check_evaluations()
check_server()
check_restores()
check_steps()
check_inputs()
check_tokens()
check_places()
check_arrays()
check_faults()
check_models()
check_signals()
