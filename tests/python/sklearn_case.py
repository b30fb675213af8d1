"""simurgh.sklearn: estimators train on frames and arrays, travel in pickles, and work with scikit-learn's tools."""

import contextlib
import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import tempfile
import time
import warnings

from package import ROOT, raises, simurgh
from case import BIN, expect, free_port, program, skip

import numpy as np

try:
    import joblib
    import pandas
    import polars
    import sklearn
except ImportError as error:
    skip(f"{error.name} is missing")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from simurgh.sklearn import SimurghClassifier, SimurghRegressor

QUICK = {"epochs": 3, "refit": False, "random_state": 1}  # A fit takes 0.2 s.
temporary = pathlib.Path("temporary").absolute()
temporary.mkdir()
os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
random = np.random.default_rng(1)
ROWS = 1500


def frame_of(rows):
    """A frame of all kinds of columns, the log odds and the labels, which depend on three of them."""
    site = random.integers(0, 20, rows)
    age = np.round(random.normal(40, 12, rows), 1)
    price = np.exp(random.normal(2, 1, rows)) * 1e-4  # Some texts of these have exponents.
    history = [[f"i{item}" for item in random.integers(0, 9, random.integers(0, 4))] for _ in range(rows)]
    odds = np.random.default_rng(2).normal(0, 1.5, 20)[site] + (age - 40) / 12
    odds += np.array([2.0 * ("i3" in one) for one in history]) - 0.6
    frame = pandas.DataFrame({
        "site": [f"site {number}, \"{number % 3}\"" for number in site],
        "age": np.where(random.random(rows) < 0.1, np.nan, age),
        "price": price,
        "kind": pandas.Categorical(np.where(site % 2 == 0, "even", "odd")),
        "count": pandas.array(np.where(site < 10, 2**60 + site, site), "Int64"),
        "is_new": age > 40,
        "when": pandas.Timestamp("2026-03-01") + pandas.to_timedelta(random.integers(0, 30 * 24, rows), "h"),
        "note": [None if number == 3 else f"line\n{number}" for number in site],
        "history": history,
        "all the same": 1,
    })
    frame.loc[::9, "count"] = pandas.NA
    label = pandas.Series(np.where(random.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no"), name="clicked")
    return frame, odds, label


frame, odds, label = frame_of(ROWS)
later, later_odds, later_label = frame_of(500)


# All kinds of columns; the model learns, and its folder gives the same predictions as a file of the rows.
def check_frame():
    classifier = SimurghClassifier(random_state=1)
    expect(classifier.fit(frame, label) is classifier, "fit returns the estimator")
    expect(list(classifier.classes_) == ["no", "yes"], f"{classifier.classes_}")
    expect(list(classifier.feature_names_in_) == list(frame.columns), "the names of the columns")
    expect(classifier.n_features_in_ == 10, "the number of columns")
    found = classifier.predict_proba(later)
    expect(found.shape == (500, 2) and np.allclose(found.sum(1), 1), "two probabilities a row")
    auc, best = (roc_auc_score(later_label, one) for one in (found[:, 1], later_odds))
    expect(auc > best - 0.06, f"AUC {auc:.4f}, with full knowledge {best:.4f}")
    expect((classifier.predict(later) == np.where(found[:, 1] > 0.5, "yes", "no")).all(), "classes of probabilities")
    expect(len(classifier.history_) > 2, "the history of the training")
    joined = frame.assign(history=[["a|b", "c"]] * len(frame))
    raises(ValueError, lambda: SimurghClassifier(**QUICK).fit(joined, label), "'|'")

    classifier.save("saved")
    raises(simurgh.InvalidError, lambda: classifier.save("saved"), "saved: is there")
    rows = later.assign(
        history=["|".join(one) for one in later["history"]],
        note=later["note"].str.replace("\n", " "),
        is_new=later["is_new"].astype(int),
    )
    rows.to_csv("later.csv", index=False)
    program("simurgh", "predict", "--model", "saved", "--input", "later.csv", "--output", "scores.csv")
    wanted = pandas.read_csv("scores.csv")["p"].to_numpy()
    far = np.abs(found[:, 1] - wanted)
    expect(far.max() < 1e-6, f"`simurgh predict` differs by {far.max()} in row {far.argmax()}")
    expect(np.allclose(classifier.model().predict(rows), found[:, 1], atol=1e-6), "the Model of an estimator")

    copy = pickle.loads(pickle.dumps(classifier))
    joblib.dump(classifier, "classifier.joblib")
    for other in (copy, joblib.load("classifier.joblib")):
        expect((other.predict_proba(later) == found).all(), "a copy has the same predictions")
    many = joblib.Parallel(n_jobs=2)(joblib.delayed(classifier.predict_proba)(part) for part in (later[:250], later[250:]))
    expect(np.allclose(np.concatenate(many), found, atol=1e-6), "other processes have the same predictions")
    again = SimurghClassifier(random_state=1).fit(frame, label)
    expect((again.predict_proba(later) == found).all(), "the same random_state gives the same predictions")
    other = SimurghClassifier(random_state=2).fit(frame, label)
    expect((other.predict_proba(later) != found).any(), "another random_state gives others")
    raises(ValueError, lambda: classifier.predict(later.drop(columns="age")), "age")
    raises(ValueError, lambda: classifier.predict(later[:0]), "0 sample(s)")


# The same cells in other types give the same model.
def check_types():
    of_pandas = frame[["site", "age", "price", "is_new", "history"]]
    data = {name: of_pandas[name].tolist() for name in of_pandas}
    data["age"] = [None if value != value else value for value in data["age"]]
    wanted = SimurghClassifier(**QUICK).fit(of_pandas, label).predict_proba(of_pandas)
    of_polars = polars.DataFrame(data)
    found = SimurghClassifier(**QUICK).fit(of_polars, label).predict_proba(of_polars)
    expect((found == wanted).all(), "a frame of polars")
    array = np.empty(of_pandas.shape, object)
    for place, name in enumerate(data):
        for row, cell in enumerate(data[name]):
            array[row, place] = cell
    found = SimurghClassifier(**QUICK).fit(array, label).predict_proba(array)
    expect(np.abs(found - wanted).mean() < 0.1, "an array of objects, whose columns have other names")
    numbers = random.normal(size=(200, 3))
    classes = (numbers[:, 0] > 0).astype(int)
    for given in (numbers, numbers.astype(np.float32), numbers.tolist(), np.asfortranarray(numbers)):
        score = SimurghClassifier(epochs=20, refit=False, random_state=1).fit(given, classes).score(numbers, classes)
        expect(score > 0.9, f"an array of numbers: {score}")
    texts = np.array([["a", "x"], ["b", "y"], ["a", "y"], ["b", "x"]] * 20)
    score = SimurghClassifier(epochs=20, random_state=1).fit(texts, [1, 0, 1, 0] * 20).score(texts, [1, 0, 1, 0] * 20)
    expect(score == 1, f"an array of texts: {score}")


# All columns of X are features, also those that look like a label, or tell nearly all about it.
def check_names():
    number = random.normal(0, 1, ROWS).round(3)
    noise = random.normal(0, 1, ROWS).round(3)
    twice = (number > 0).astype(int)
    for name in ("rating", "user's rating", "target", "is_click", "size"):
        table = pandas.DataFrame({name: number, "noise": noise, "sold": twice})
        score = SimurghRegressor(epochs=20, random_state=1).fit(table[:1000], 50 * number[:1000]).score(table[1000:], 50 * number[1000:])
        expect(score > 0.9, f"R2 {score} by the column {name}")
        table = pandas.DataFrame({name: twice, "noise": noise})
        classifier = SimurghClassifier(**QUICK).fit(table[:1000], twice[:1000])
        auc = roc_auc_score(twice[1000:], classifier.predict_proba(table[1000:])[:, 1])
        expect(auc > 0.99, f"AUC {auc} by the column {name}")
    # As in scikit-learn, an array has the columns of a frame in their order, and the other way round.
    plain = pandas.DataFrame({"first": number, "second": noise})
    for one, other in ((plain, plain.to_numpy()), (plain.to_numpy(), plain)):
        both = SimurghRegressor(**QUICK).fit(one, number)
        expect((both.predict(one) == both.predict(other)).all(), "frames and arrays have the same predictions")
    skips = SimurghRegressor(**QUICK, init={"skip": ["rating"]})
    table = pandas.DataFrame({"rating": number, "noise": noise})
    expect(skips.fit(table[:1000], number[:1000]).score(table[1000:], number[1000:]) < 0.2, "a column of --skip is left out")


def check_regressor():
    prices = 2e5 + 3e4 * odds + random.normal(0, 1e4, ROWS)
    regressor = SimurghRegressor(random_state=1).fit(frame, prices)
    score = regressor.score(later, 2e5 + 3e4 * later_odds)
    expect(score > 0.8, f"R2 {score}")
    two = SimurghRegressor(epochs=20, random_state=1).fit(frame, np.where(odds > 0, 7.0, 3.0))
    far = np.abs(two.predict(later) - np.where(later_odds > 0, 7.0, 3.0)).mean()
    expect(far < 1, f"two values are no classes: mean difference {far}")
    raises(ValueError, lambda: regressor.fit(frame, [1.0] * ROWS), "one value")
    raises(ValueError, lambda: regressor.fit(frame, np.where(odds > 0, np.nan, 1.0)), "NaN")


# Weights, rows to stop by, and parameters.
def check_training():
    halves = pandas.DataFrame({"key": ["a"] * 400, "number": random.normal(size=400)})
    labels = np.arange(400) % 2
    light = SimurghClassifier(epochs=30, random_state=1).fit(halves, labels, sample_weight=np.where(labels == 1, 1.0, 9.0))
    expect(np.mean(light.predict_proba(halves)[:, 1]) < 0.25, "weights count")
    stopped = SimurghClassifier(epochs=30, patience=2, random_state=1).fit(
        frame, label, eval_set=(later, later_label))
    steps = [event["step"] for event in stopped.history_ if event["event"] == "validation"]
    losses = [event["logloss"] for event in stopped.history_ if event["event"] == "validation"]
    expect(3 <= len(steps) < 30 and np.argmin(losses) == len(losses) - 3, f"stops after the best epoch: {losses}")
    expect(stopped.result_.get("best_step") == steps[-3], f"keeps the best epoch: {stopped.result_} of {steps}")
    fixed = SimurghClassifier(patience=0, epochs=2, dim=4, batch_size=50, learning_rate=0.01, random_state=1,
                              embedding_learning_rate=0.1, settings={"model": "dlrm"}).fit(frame, label)
    expect(fixed.model().inputs.dims["site"] == 4, "the dim of embeddings")
    expect(fixed.model().step == 2 * ROWS // 50, f"all epochs with all rows: step {fixed.model().step}")
    skipped = SimurghClassifier(**QUICK, init={"skip": ["site"], "id": ["age"]}).fit(frame, label)
    expect("site" not in skipped.model().inputs.dims and "age" in skipped.model().inputs.dims, "options of init")
    raises(ValueError, lambda: SimurghClassifier(patience=0).fit(frame, label), "epochs is None")
    raises(ValueError, lambda: SimurghClassifier(dim=-1).fit(frame, label), "dim")
    raises(ValueError, lambda: SimurghClassifier(settings={"training.modus": 1}).fit(frame, label), "modus")
    raises(ValueError, lambda: SimurghClassifier(init={"id": "nothing"}).fit(frame, label), "nothing")
    raises(ValueError, lambda: light.fit(halves, labels, eval_set=(halves, labels + 1)), "class 2")
    raises(ValueError, lambda: light.fit(halves, labels, eval_set=halves), "eval_set")
    raises(ValueError, lambda: light.fit(halves, np.arange(400) % 3), "Only binary", "OneVsRestClassifier")
    raises(ValueError, lambda: light.fit(halves, labels, sample_weight=labels - 1.0), "negative")
    raises(TypeError, lambda: light.fit(pandas.DataFrame({"a": [{"b": 1}] * 4}), [0, 1, 0, 1]), "dict")
    raises(ValueError, lambda: light.fit([[np.inf], [1.0]], [0, 1]), "infinity")


# `simurgh train --standalone`, which the estimators use, of files.
def check_standalone():
    frame[["site", "age"]].assign(clicked=label).to_csv("rows.csv", index=False)
    result = simurgh.train("rows.csv", "standalone", standalone=True, refit=True, settings={"training.epochs": 2})
    expect(result["test_auc"] > 0.6 and pathlib.Path("standalone-trial").exists(), f"{result}")
    for words in (["--host", "here"], ["--", "true"]):
        failed = program("simurgh", "train", "standalone.yaml", "--standalone", *words, code=2)
        expect("--standalone supports neither" in failed.err, failed.err)


def check_tools():
    quick = SimurghClassifier(**QUICK)
    rest = frame[["age", "price"]].fillna(0)
    pipeline = make_pipeline(
        ColumnTransformer([("numbers", StandardScaler(), ["price"]), ("rest", "passthrough", ["site", "age"])]), quick)
    expect(0 < pipeline.fit(frame, label).score(later, later_label) <= 1, "a pipeline")
    expect(make_pipeline(FunctionTransformer(np.log1p), quick).fit(rest, label).predict(rest).shape == (ROWS,), "numbers")
    scores = cross_val_score(quick, frame, label, cv=3, scoring="roc_auc")
    expect(len(scores) == 3 and scores.min() > 0.6, f"cross_val_score: {scores}")
    search = GridSearchCV(quick, {"dim": [4, 8]}, cv=2, n_jobs=2).fit(frame, label)
    expect(search.best_params_["dim"] in (4, 8) and len(search.cv_results_["params"]) == 2, "GridSearchCV")
    expect(clone(search.best_estimator_).get_params() == search.best_estimator_.get_params(), "clone")
    many = OneVsRestClassifier(quick).fit(frame, np.arange(ROWS) % 3)
    expect(many.predict_proba(later).shape == (500, 3), "three classes by OneVsRestClassifier")
    try:
        import optuna
    except ImportError:
        print("optuna is missing")
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial):
        one = SimurghClassifier(**QUICK, learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True))
        return roc_auc_score(later_label, one.fit(frame, label).predict_proba(later)[:, 1])

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=3)
    expect(len(study.trials) == 3 and study.best_value > 0.6, f"Optuna: {study.best_value}")


# The programs of the README, from a frame to a served model.
def check_readme():
    text = (ROOT / "services/python/README.md").read_text()
    five_minutes, estimators = (text.split(f"\n## {name}\n")[1] for name in ("Five minutes", "scikit-learn"))
    blocks = re.findall(r"```(python|sh)\n(.*?)```", estimators, re.DOTALL)[:2]
    expect(len("\n".join(block for _, block in blocks).replace("\n\n", "\n").splitlines()) <= 10, "it has ten lines")
    for kind, block in [("python", re.search(r"```python\n(.*?)```", five_minutes, re.DOTALL)[1]), *blocks]:
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(block, {})
            continue
        block = block.replace(":8000", f":{free_port()}").replace("simurgh serve", f"{BIN}/simurgh serve")
        done = subprocess.run(["bash", "-c", block + "kill %1; wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", timeout=100)
        answer = re.findall(r"\{[^{}]*\}", done.stdout)  # An answer before the version is loaded is an error, which curl repeats.
        expect(answer, f"the server answers: {done.stdout}{done.stderr[-1000:]}")
        served = json.loads(answer[-1])["predictions"]
        clicks = pandas.DataFrame({"site": ["site3"], "ad": ["ad6"], "age": [30]})
        wanted = simurgh.Model("clicks-served").predict(clicks)
        expect(np.allclose(np.array(served, float).ravel(), wanted, atol=1e-6), f"{served} is served, {wanted} expected")
    expect(printed.getvalue().startswith("[0."), f"probabilities are printed: {printed.getvalue()}")


warnings.simplefilter("ignore")  # Short trainings on few rows warn of new ids and others.
for check in (check_frame, check_types, check_names, check_regressor, check_training, check_standalone, check_tools, check_readme):
    begin = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
left = list(temporary.glob("simurgh*"))
expect(not left, f"temporary folders are left: {left}")
