"""simurgh.Model gives the numbers of the programs: predictions, features and rows, for built-in and hosted networks."""

import threading

from hosted import Net, ROOT, click_files, example, expect, loss_of, program, raises, simurgh, skip, torch

import numpy as np

try:
    import polars
except ImportError:
    skip("polars is missing")

ADULT = ("age workclass fnlwgt education education_num marital_status occupation relationship race gender capital_gain "
         "capital_loss hours_per_week native_country income").split()


def train(name, *settings):
    config = example(name, model=True)
    words = [word for one in (f"checkpoint.directory={name}-model", "training.max_steps=150", *settings)
             for word in ("--set", one)]
    program("nn-worker", "--config", config, "--standalone", *words)
    return f"{name}-model"


# Predictions equal those of the program; rows those that it exports; features are what rows give.
def check_built_in():
    rows = polars.read_csv(ROOT / "config/data/adult/adult.test.csv.zst", has_header=False, new_columns=ADULT).head(3000)
    rows.write_csv("rows.csv", include_header=False)
    for name in ("adult", "adult-dlrm", "adult-regression", "adult-tasks"):
        folder = train(name)
        model = simurgh.Model(folder)
        program("simurgh", "predict", "--model", folder, "--input", "rows.csv", "--output", "scores.csv")
        wanted = polars.read_csv("scores.csv").to_numpy()
        found = model.predict(rows)
        far = (np.abs(found.reshape(wanted.shape) - wanted) / np.maximum(1, np.abs(wanted))).max()
        expect(far < 1e-6, f"{name}: predictions differ by {far}")
    model = simurgh.Model("adult-model")
    program("simurgh", "export", "embeddings", "--model", "adult-model", "--output", "{table}.npz")
    table = np.load("workclass.npz")
    weights, found = model.rows("workclass", table["ids"] if "ids" in table else table["id"])
    expect(found.all() and (weights == table["weights"]).all(), "rows are those of the export")
    weights, found = model.rows("workclass", np.array([12345], np.uint64))
    expect(not found.any() and (weights == 0).all(), "an id without a row")
    features = model.features(rows)
    expect(features.embeddings["workclass"].shape == (3000, 8), "the shape of a feature")
    one = features.embeddings["workclass"][0]
    expect((np.abs(table["weights"] - one).max(1) < 1e-7).any(), "a pooled feature of one id is its row")
    raises(simurgh.InvalidError, lambda: model.rows("nothing", np.array([1])), "nothing", "workclass")
    raises(simurgh.InvalidError, lambda: model.rows("workclass", np.array([1.5])), "integers")
    raises(simurgh.InvalidError, lambda: model.predict(rows.drop("age")), "age")
    raises(simurgh.InvalidError, lambda: model.predict("rows.csv"), "__arrow_c_stream__")
    raises(simurgh.InvalidError, lambda: simurgh.Model("nothing-here"), "nothing-here")
    raises(simurgh.InvalidError, lambda: simurgh.Model("adult-model", version="newest"), "newest")
    expect(len(model.predict(rows.head(0))) == 0, "no rows")

    # A bad row has no prediction; the others have theirs.
    broken = rows.head(5).with_columns(age=polars.Series(["30", "31", "old", "33", "34"]))
    expect(list(np.isnan(model.predict(broken))) == [False, False, True, False, False], "a bad row is NaN")

    answers = [None] * 8
    threads = [threading.Thread(target=lambda i=i: answers.__setitem__(i, model.predict(rows))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(all((one == answers[0]).all() for one in answers), "threads get the same predictions")


# A hosted network predicts from the model's folder as it did in training.
def check_hosted():
    path = click_files()
    with simurgh.torch.Worker(path, overrides=["checkpoint.directory=hosted-model"], log_level="warn") as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            worker.finish(batch, logits)
    result = worker.result
    model = simurgh.Model("hosted-model")
    rows = polars.read_csv("later.csv")
    raises(simurgh.InvalidError, lambda: model.predict(rows), "program")
    fresh = Net(model.inputs, seed=5)
    simurgh.torch.load(model, net=fresh)
    logits = simurgh.torch.predict(model, fresh, rows)
    label = rows["label"].to_numpy()
    loss = np.mean(np.log1p(np.exp(-np.where(label == 1, logits, -logits))))
    expect(abs(loss - result["test_logloss"]) < 1e-4, f"log loss {loss} is that of the training: {result}")
    raises(simurgh.InvalidError, lambda: simurgh.torch.load(model, other=fresh), "other", "net")
    raises(simurgh.InvalidError, lambda: simurgh.torch.load(simurgh.Model("adult-model"), net=fresh), "configuration")


check_built_in()
check_hosted()
