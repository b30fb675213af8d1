"""Mistakes of programs: each has a clear error at the call, and training ends as its neighbours expect."""

import signal

from hosted import *

InvalidError = simurgh.InvalidError
click_files()


def worker(*overrides, **options):
    return simurgh.torch.Worker("clicks.yaml", overrides=overrides, log_level="error", **options)


def prepared(one):
    """A network and its optimizer, tracked."""
    net = Net(one.inputs)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    one.track(net=net, optimizer=optimizer)
    return net, optimizer


def backward(net, optimizer, batch):
    logits = net(batch.dense, batch.embeddings)
    optimizer.zero_grad()
    loss_of(logits, batch).backward()
    return logits


def left(one):
    """Ends a worker before training has ended."""
    raises(InvalidError, lambda: one.__exit__(None, None, None), "the loop ended before training did")


def train(one, net, optimizer, steps=None):
    for batch in one:
        logits = backward(net, optimizer, batch)
        optimizer.step()
        if batch.step + 1 == steps:
            one.interrupt()
        one.finish(batch, logits)


# --- Outputs and gradients of a batch. A wrong call leaves the batch open, so that a right one can follow.
with worker("training.max_steps=6", "checkpoint.directory=shapes") as one:
    net, optimizer = prepared(one)
    taken = []
    for batch in one:
        rows, width = batch.rows, one.inputs.embedding_width
        if batch.step == 0:
            raises(InvalidError, lambda: one.finish(batch, torch.zeros(rows)), "step 0", "loss.backward()")
        logits = backward(net, optimizer, batch)
        if batch.step == 0:
            raises(InvalidError, lambda: one.finish(batch, logits[:-1]), f"outputs have the shape ({rows - 1},)",
                   f"expected ({rows}, 1)")
            raises(InvalidError, lambda: one.finish(batch, torch.zeros(1, rows)), f"({1}, {rows})", f"expected ({rows}, 1)")
            raises(InvalidError, lambda: one.finish(batch, logits > 0), "outputs", "bool", "floating-point numbers")
            raises(InvalidError, lambda: one.finish(batch, None), "outputs", "NoneType")
            raises(InvalidError, lambda: one.finish(None, logits), "batch")
            raises(InvalidError, lambda: next(one), "step 0", "worker.finish")
        given = [logits, logits[:, None], logits.double(), logits.to(torch.bfloat16), logits.tolist(),
                 logits.detach().numpy()][batch.step]
        one.finish(batch, given)
        raises(InvalidError, lambda: one.finish(batch, logits), "finish each batch once")
        raises(InvalidError, lambda: batch.dense, f"step {batch.step} is finished")
        raises(InvalidError, lambda: batch.to("cpu"), f"step {batch.step} is finished")
        taken.append((batch, logits))
    expect(len(taken) == 6, f"{len(taken)} steps")
raises(InvalidError, lambda: next(one), "closed")
raises(InvalidError, lambda: one.interrupt(), "closed")

# Tensors that are kept stay valid after finish, and after the worker is closed.
kept, copies = [], []
with worker() as one:
    net, optimizer = prepared(one)
    for batch in one:
        kept.append((batch.dense, batch.joined, batch.labels, batch.embeddings["item"]))
        copies.append([part.detach().clone() for part in kept[-1]])
        logits = backward(net, optimizer, batch)
        one.finish(batch, logits)
expect(len(kept) == 40 and all(torch.equal(a, b) for old, new in zip(kept, copies) for a, b in zip(old, new)),
       "kept tensors have their values")
del kept, copies, batch

# --- The same with numpy.
with simurgh.Worker("clicks.yaml", overrides=["training.max_steps=5"], log_level="error") as one:
    one.track(forward=lambda batch: np.zeros((batch.rows, 1)))
    for batch in one:
        rows, width = batch.rows, one.inputs.embedding_width
        outputs, gradients = np.zeros(rows), np.zeros((rows, width))
        raises(InvalidError, lambda: one.finish(batch, outputs, gradients[:, 1:]), f"gradients have the shape ({rows}, {width - 1})",
               f"expected ({rows}, {width})")
        raises(InvalidError, lambda: one.finish(batch, outputs, None), "gradients", "NoneType")
        raises(InvalidError, lambda: one.finish(batch, outputs, gradients.astype(complex)), "gradients", "complex128")
        raises(InvalidError, lambda: one.finish(batch, np.zeros((rows, 2)), gradients), f"({rows}, 2)", f"({rows}, 1)")
        raises(InvalidError, lambda: one.sum(np.zeros(3)), "float32")
        one.finish(batch, outputs, [gradients, gradients.astype(np.float16), gradients.tolist(),
                                    np.asfortranarray(gradients), gradients.astype(int)][batch.step])
        raises(InvalidError, lambda: one.finish(batch, outputs, gradients), "finish each batch once")
expect(one.result["test_auc"] == 0.5, f"{one.result}")

# --- Evaluations.
with worker("training.max_steps=1") as one:
    net, optimizer = prepared(one)
    one.track(lambda batch: net(batch.dense, batch.embeddings)[:-1], net=net)
    raises(InvalidError, lambda: train(one, net, optimizer), "outputs have the shape (99,)", "expected (100, 1)")
    raises(InvalidError, lambda: next(one), "a batch to predict", "has no answer")
    left(one)

# --- A program that ends too early, or tracks nothing.
with worker("checkpoint.directory=nothing") as one:
    raises(InvalidError, lambda: next(one), "nothing is tracked")
with worker() as one:
    raises(InvalidError, lambda: one.track(), "worker.track: name what is saved")
    raises(InvalidError, lambda: one.track(net=3), "net has no state_dict")
with worker() as one:
    raises(InvalidError, lambda: list(worker()), "this process has a worker", "close it")
with worker("training.max_steps=3", "data.test=[]") as one:  # Nothing is tracked, saved or tested.
    for batch in one:
        batch.joined.sum().backward()
        one.finish(batch, torch.zeros(batch.rows))
with worker("training.max_steps=3") as one:
    def untracked():
        for batch in one:
            batch.joined.sum().backward()
            one.finish(batch, torch.zeros(batch.rows))

    raises(InvalidError, untracked, "no network is tracked", "worker.track(forward=...)")


def forgotten(finishes):
    with worker("checkpoint.directory=forgotten") as one:
        net, optimizer = prepared(one)
        batch = next(one)
        if finishes:
            one.finish(batch, backward(net, optimizer, batch))


raises(InvalidError, lambda: forgotten(False), "step 0 was not finished")
raises(InvalidError, lambda: forgotten(True), "the loop ended before training did, so nothing is saved", "worker.interrupt()")
expect(not list(pathlib.Path("forgotten").glob("step-*")), "nothing is saved")


# --- Exceptions of the program pass, and nothing is saved.
def fails():
    with worker("checkpoint.directory=failed") as one:
        net, optimizer = prepared(one)
        for batch in one:
            logits = backward(net, optimizer, batch)
            if batch.step == 7:
                raise ZeroDivisionError("the user's")
            one.finish(batch, logits)


raises(ZeroDivisionError, fails, "the user's")
expect(not list(pathlib.Path("failed").glob("step-*")), "a failed training saves nothing")

# --- Signals. The first one ends training and saves; the second one raises.
before = signal.getsignal(signal.SIGINT)
with worker("checkpoint.directory=signals") as one:
    net, optimizer = prepared(one)
    for batch in one:
        logits = backward(net, optimizer, batch)
        if batch.step == 3:
            signal.raise_signal(signal.SIGINT)
            expect(one.interrupted, "the worker knows of the signal")
        one.finish(batch, logits)
expect(signal.getsignal(signal.SIGINT) is before, "the handlers are as before")
expect(len(list(pathlib.Path("signals").glob("step-*"))) == 1, "an interrupted training is saved")


def twice():
    with worker("checkpoint.directory=signals-twice") as one:
        net, optimizer = prepared(one)
        for batch in one:
            logits = backward(net, optimizer, batch)
            if batch.step == 3:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
            one.finish(batch, logits)


raises(KeyboardInterrupt, twice)
expect(not list(pathlib.Path("signals-twice").glob("step-*")), "after the second signal nothing is saved")
expect(signal.getsignal(signal.SIGINT) is before, "the handlers are as before after two signals")


# --- Configurations.
raises(InvalidError, lambda: simurgh.Worker("no.yaml"), "no.yaml")
raises(InvalidError, lambda: simurgh.Worker(), "the configuration is missing", "simurgh train CONFIG -- PROGRAM")
raises(InvalidError, lambda: worker("training.mode=async"), "async")
raises(InvalidError, lambda: worker("training.modus=sync"), "modus")
raises(InvalidError, lambda: worker("training.batch_size=0"), "training.batch_size")
raises(InvalidError, lambda: worker("model=deepfm"), "model", "remove")
raises(InvalidError, lambda: worker(rank=1), "1")
raises(InvalidError, lambda: simurgh.Worker("clicks.yaml", log_level="loud"), "loud")
raises(InvalidError, lambda: worker("data.train=[no.csv]"), "no.csv")
raises(InvalidError, lambda: worker(resume="nowhere"), "nowhere")
for name, words in (("nn-worker", ["--standalone", "--config"]), ("simurgh", ["train"])):
    done = program(name, *words, "clicks.yaml", code=2)
    expect("model" in done.err and "simurgh train CONFIG -- python3 train.py" in done.err, f"{name} says what to run: {done.err}")

# --- Numbers that are not finite are left out: the dense step, and the rows.
for spoiled in ("loss", "gradients", "outputs"):
    with log() as path, simurgh.torch.Worker("clicks.yaml", overrides=["training.max_steps=4"]) as one:
        net, optimizer = prepared(one)
        for batch in one:
            before = [weight.detach().clone() for weight in net.parameters()]
            logits = net(batch.dense, batch.embeddings)
            loss = loss_of(logits, batch)
            optimizer.zero_grad()
            (loss * float("nan") if spoiled == "loss" and batch.step == 1 else loss).backward()
            if batch.step == 1 and spoiled == "gradients":
                net.layers[0].weight.grad[0, 0] = float("inf")
            optimizer.step()
            unchanged = all(torch.equal(old, new) for old, new in zip(before, net.parameters()))
            expect(unchanged == (batch.step == 1 and spoiled != "outputs"), f"{spoiled}: step {batch.step}: {unchanged}")
            if batch.step == 1 and spoiled == "outputs":
                logits = logits * float("nan")
            one.finish(batch, logits)
    expect("skipped_steps=1" in path.read_text(), f"{spoiled}: the step is counted: {path.read_text()[-900:]}")


# Rows are as after the step before.
def spoiled_steps(model, steps, first_bad, *overrides):
    with worker(f"training.max_steps={steps}", f"checkpoint.directory={model}", *overrides) as one:
        net, optimizer = prepared(one)
        for batch in one:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            (loss_of(logits, batch) * (float("nan") if batch.step >= first_bad else 1)).backward()
            optimizer.step()
            one.finish(batch, logits)


spoiled_steps("good", 1, 1)
spoiled_steps("spoiled", 2, 1)
before, after = rows_of(checkpoint("good")), rows_of(checkpoint("spoiled"))
for table, rows in after.items():
    known = np.isin(rows["id"], before[table]["id"])
    for name in ("weights", "adagrad.s"):
        expect(np.array_equal(rows[name][known], before[table][name]), f"{table}.{name}: a bad step changes no row")
    expect(np.all(rows["adagrad.s"][~known] == np.float32(0.01)), f"{table}: new rows have had no gradient")
raises(simurgh.Error, lambda: spoiled_steps("bad", 20, 2, "training.max_skipped_steps=3"), "the last 3 steps (training.max_skipped_steps)",
       "lower the learning rate of the program or those of the tables")
expect(not list(pathlib.Path("bad").glob("step-*")), "a training of bad steps saves nothing")
