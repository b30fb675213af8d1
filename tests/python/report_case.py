"""The numbers of `simurgh report` and `simurgh predict --importance` are those of scikit-learn and numpy."""

import html.parser
import json
import math

from package import expect, skip

try:
    import numpy as np
    import pandas
    from sklearn.inspection import permutation_importance
    from sklearn.metrics import average_precision_score, log_loss, mean_squared_error, roc_auc_score
except ImportError as error:
    skip(f"scikit-learn or pandas is missing: {error}")

import simurgh as package
from case import simurgh
from simurgh.sklearn import SimurghClassifier, SimurghRegressor


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order and nothing is loaded. Collects texts and numbers."""

    def __init__(self, text):
        super().__init__()
        self.open, self.problems, self.numbers, self.text = [], [], set(), ""
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        if tag in ("script", "link", "img", "iframe", "object", "embed", "base", "form"):
            self.problems.append(f"<{tag}>")
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset") or name.startswith("on") or "url(" in (value or ""):
                self.problems.append(f"{name}={value}")
            if tag == "data" and name == "value":
                self.numbers.add(float(value))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_data(self, data):
        if "@import" in data or "url(" in data:
            self.problems.append("the style loads something")
        self.text += data


def page_of(path):
    page = Page(open(path, encoding="utf-8").read())
    expect(not page.problems, f"{path}: {page.problems}")
    return page


def near(found, wanted, what, tolerance=1e-6):
    same = found is None and wanted is None
    if not same:
        same = found is not None and wanted is not None and math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)
    expect(same, f"{what}: {found}, expected {wanted}")


def report_of(model, *words, output="page.html"):
    """Returns the JSON and the page of a report."""
    simurgh("report", model, "--output", output, "--json", "report.json", *words)
    return json.load(open("report.json", encoding="utf-8")), page_of(output)


def scores_of(model, path):
    simurgh("predict", "--model", model, "--input", path, "--output", "scores.csv")
    return pandas.read_csv("scores.csv")["p"].to_numpy().astype(np.float32).astype(np.float64)


def check_metrics(label, y, p, weights, what):
    metrics = label["metrics"]
    near(metrics["auc"], roc_auc_score(y, p, sample_weight=weights), f"{what}: AUC")
    near(metrics["log_loss"], log_loss(y, p, sample_weight=weights), f"{what}: log loss", 2e-6)
    share = np.average(y, weights=weights)
    near(metrics["constant_log_loss"], log_loss(y, np.full(len(y), share), sample_weight=weights), f"{what}: constant")
    near(metrics["calibration"], np.average(p, weights=weights) / share, f"{what}: calibration")


def check_curves(label, y, p, weights):
    near(label["average_precision"], average_precision_score(y, p, sample_weight=weights), "average precision")
    positives, negatives = weights[y == 1].sum(), weights[y == 0].sum()
    for point in label["curve"] + label["thresholds"]:
        chosen = p >= point["threshold"]
        near(point["recall"], weights[chosen & (y == 1)].sum() / positives, "recall")
        near(point["fall_out"], weights[chosen & (y == 0)].sum() / negatives, "false positives")
        near(point["precision"], weights[chosen & (y == 1)].sum() / weights[chosen].sum(), "precision")
        near(point["share"], weights[chosen].sum() / weights.sum(), "share")
    order = np.argsort(p, kind="stable")
    deciles = np.arange(len(p)) * 10 // len(p)
    firsts = {value: decile for value, decile in reversed(list(zip(p[order], deciles)))}
    own = np.array([firsts[value] for value in p[order]])
    found = label["deciles"]
    expect(len(found) == len(set(own)), f"{len(found)} deciles, expected {len(set(own))}")
    for bin, decile in zip(found, sorted(set(own))):
        rows = order[own == decile]
        expect(bin["rows"] == len(rows), f"rows of a decile: {bin['rows']}, expected {len(rows)}")
        near(bin["prediction"], np.average(p[rows], weights=weights[rows]), "mean prediction of a decile")
        near(bin["label"], np.average(y[rows], weights=weights[rows]), "share of positives of a decile")
    scores = label["scores"]
    places = np.minimum((p - scores["low"]) / scores["width"] + 1e-9, 39).astype(int)
    for name, value in (("first", 1), ("second", 0)):
        counts = np.bincount(places[y == value], weights[y == value], 40)
        far = np.abs(counts - scores[name]).sum() / weights.sum()
        expect(far < 0.002, f"histogram of label {value}: {far} of the rows are elsewhere")


def check_segments(report, frame, y, p, weights, column):
    found = next(one for one in report["segments"] if one["column"] == column)["segments"]
    values = frame[column].astype(str)
    expect({one["name"] for one in found} == set(values), f"segments {[one['name'] for one in found]}")
    for segment in found:
        rows = (values == segment["name"]).to_numpy()
        expect(segment["rows"] == rows.sum(), f"rows of {segment['name']}")
        of = segment["labels"][0]
        near(of["mean_label"], np.average(y[rows], weights=weights[rows]), f"label of {segment['name']}")
        near(of["mean_prediction"], np.average(p[rows], weights=weights[rows]), f"prediction of {segment['name']}")
        if len(set(y[rows])) == 2:
            near(of["metrics"]["auc"], roc_auc_score(y[rows], p[rows], sample_weight=weights[rows]), "AUC of a segment")
            near(of["metrics"]["log_loss"], log_loss(y[rows], p[rows], sample_weight=weights[rows]), "loss of a segment", 2e-6)


def check_numbers_of_page(report, page):
    """The page has the numbers of the JSON: metrics, deciles, thresholds, segments and importance."""
    wanted = []
    for label in report["labels"]:
        wanted += [value for value in label["metrics"].values()]
        wanted += [end for interval in label["intervals"].values() if interval for end in interval]
        wanted += [one[key] for one in label["deciles"] for key in ("rows", "prediction", "label")]
        wanted += [value for one in label.get("thresholds", []) for value in one.values()]
    for column in report["segments"]:
        for segment in column["segments"]:
            wanted += [value for of in segment["labels"] for key, value in of["metrics"].items() if key != "calibration"]
    for column in report["importance"]["columns"]:
        for effects in column["effects"]:
            wanted += [effects["loss_increase"]["mean"], *effects["loss_increase"]["interval"]]
    gains = {end for label in report["labels"] for end in (label["intervals"]["gain"] or [])}
    regression = {end for label in report["labels"] if "rmse" in label["metrics"]
                  for end in [label["metrics"]["calibration"], *(label["intervals"]["calibration"] or [])]}
    missing = [one for one in wanted if one is not None and one not in page.numbers | gains | regression]
    expect(not missing, f"numbers that the page lacks: {missing[:10]} of {len(wanted)}")


random = np.random.default_rng(5)
ROWS = 3000


def frame_of(rows):
    site, ad = random.integers(0, 6, rows), random.integers(0, 12, rows)
    age, noise = random.normal(40, 12, rows).round(2), random.normal(0, 1, rows).round(3)
    odds = np.array([-1.5, 0.2, 1.4, -0.4, 0.9, -2])[site] + 0.05 * (age - 40) + 0.4 * (ad % 3 - 1) - 0.5
    frame = pandas.DataFrame({"site": np.char.add("s", site.astype(str)), "ad": np.char.add("ad", ad.astype(str)),
                              "age": age, "noise": noise})
    return frame, odds


frame, odds = frame_of(ROWS)
label = (random.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(int)
test, test_odds = frame_of(4000)
test_label = (random.random(4000) < 1 / (1 + np.exp(-test_odds))).astype(int)


# All numbers of a binary label, with weights.
weights = random.uniform(0.5, 2, ROWS).round(2)
test_weights = random.uniform(0.5, 2, 4000).round(2)
classifier = SimurghClassifier(epochs=4, random_state=1).fit(
    frame, pandas.Series(label, name="clicked"), sample_weight=weights)
classifier.save("model")
test.assign(clicked=test_label, weight=test_weights).to_csv("test.csv", index=False)
p = scores_of("model", "test.csv")
report, page = report_of("model", "--input", "test.csv", "--by", "site")
of_label = report["labels"][0]
expect(of_label["label"] == "clicked" and of_label["rows"] == 4000, f"the label: {of_label['label']}")
check_metrics(of_label, test_label, p, test_weights, "weighted")
check_curves(of_label, test_label, p, test_weights)
check_segments(report, test, test_label, p, test_weights, "site")
check_numbers_of_page(report, page)
drift = {one["column"]: one for one in report["numbers"]}
near(drift["age"]["mean"], test["age"].mean(), "mean of the numbers", 1e-4)
near(drift["age"]["training_mean"], frame["age"].mean(), "mean of the training's numbers", 1e-4)
auc = of_label["intervals"]["auc"]
expect(auc[0] < of_label["metrics"]["auc"] < auc[1] and auc[1] - auc[0] < 0.06, f"the interval of the AUC: {auc}")
again, _ = report_of("model", "--input", "test.csv", "--by", "site", "--threads", "1")
expect(again == report, "equal rows give equal reports, whatever the threads")


# The importance of columns is that of scikit-learn, up to the choice of the permutations.
def check_importance(estimator, model, frame, y, scoring, weights, words=()):
    done = simurgh("predict", "--model", model, "--input", "test.csv", "--importance", "--json", "--importance-rows",
                   len(frame), "--repeats", 20, *words)
    found = json.loads(done.out)
    columns = {"+".join(one["columns"]): one["effects"][0] for one in found["columns"]}
    wanted = permutation_importance(estimator, frame, y, scoring=list(scoring), n_repeats=20, random_state=1,
                                    sample_weight=weights)
    for score, key in scoring.items():
        for place, name in enumerate(frame.columns):
            if name not in columns:
                expect(wanted[score].importances_mean[place] == 0, f"{name} is not read, so its importance is 0")
                continue
            mean, spread = wanted[score].importances_mean[place], wanted[score].importances_std[place]
            error = spread * (2 / 20) ** 0.5
            own = columns[name][key]["mean"]
            expect(abs(own - mean) < 5 * error + 1e-6, f"{name}, {key}: {own:.5f}, scikit-learn has {mean:.5f} +- {error:.5f}")
    return found, columns


found, columns = check_importance(classifier, "model", test, test_label,
                                  {"neg_log_loss": "loss_increase", "roc_auc": "auc_decrease"}, test_weights)
expect(found["columns"][0]["columns"] == ["site"], f"the strongest column is first: {found['columns'][0]}")
if "noise" in columns:
    low, high = columns["noise"]["loss_increase"]["interval"]
    expect(low <= 0 <= high, f"the interval of noise holds 0: {low} to {high}")
near(found["labels"][0]["loss"], of_label["metrics"]["log_loss"], "the loss of the rows", 1e-5)
near(found["labels"][0]["auc"], of_label["metrics"]["auc"], "the AUC of the rows", 1e-5)
grouped = json.loads(simurgh("predict", "--model", "model", "--input", "test.csv", "--importance", "--json",
                             "--groups", "site+ad").out)
first = grouped["columns"][0]
expect(first["columns"] == ["site", "ad"], f"a group of columns: {first['columns']}")
expect(first["effects"][0]["loss_increase"]["mean"] > columns["site"]["loss_increase"]["mean"], "both tell more than one")
of_table = package.importance("model", "test.csv", groups=[["site", "ad"]], rows=500, repeats=2)
expect(of_table["rows"] == 500 and of_table["repeats"] == 2 and of_table["columns"][0]["columns"] == ["site", "ad"],
       f"simurgh.importance: {of_table['columns'][0]}")
words = ("predict", "--model", "model", "--input", "test.csv", "--importance")
texts = [simurgh(*words, "--threads", threads).out for threads in (1, 2)]
expect(texts[0] == texts[1] and "site" in texts[0].splitlines()[2], f"two runs print the same: {texts[0]}")


# A program's network cannot be predicted: the page has the rest.
with open("hosted.yaml", "w", encoding="utf-8") as file:
    file.write("""data:
  train: [test.csv]
  test: [test.csv]
  columns:
    - {name: clicked, kind: label}
    - {name: site, kind: id}
checkpoint: {directory: hosted}
""")
with package.Worker("hosted.yaml", log_level="error") as worker:
    weights_of = np.ones(worker.inputs.embedding_width, np.float32)
    worker.track(forward=lambda batch: batch.joined @ weights_of, save=lambda: {"w": weights_of}, restore=lambda _: None,
                 name="sum")
    for batch in worker:
        outputs = batch.joined @ weights_of
        errors = (1 / (1 + np.exp(-outputs)) - batch.labels[:, 0]) / batch.rows
        worker.finish(batch, outputs, errors[:, None] * weights_of)
hosted, page = report_of("hosted")
expect(hosted["labels"] == [] and hosted["tables"][0]["rows"] == 6, f"a program's network: {hosted['tables']}")
expect("network is a program's" in page.text and "The last test of the training" in page.text, "the page says why")
refused = simurgh("report", "hosted", "--input", "test.csv", "--output", "none.html", code=2)
expect("leave out --input" in refused.err, f"an error with the remedy: {refused.err}")


# Two models on the same rows.
worse = SimurghClassifier(epochs=4, random_state=1, init={"skip": ["site"]}).fit(
    frame, pandas.Series(label, name="clicked"), sample_weight=weights)
worse.save("worse")
compared, page = report_of("worse", "--input", "test.csv", "--compare", "model", "--importance-rows", 0)
difference = compared["compared"]["labels"][0]["differences"]["auc"]
expect(difference[1] < 0, f"the model without the best column is worse: {difference}")
expect("the other one is better" in page.text, "the page says which one is better")
same, page = report_of("model", "--input", "test.csv", "--compare", "model", "--importance-rows", 0)
expect(same["compared"]["labels"][0]["differences"]["auc"] == [0, 0], "a model does not differ from itself")


# Numbers as labels.
prices = 100 + 20 * odds + random.normal(0, 5, ROWS)
test_prices = 100 + 20 * test_odds + random.normal(0, 5, 4000)
regressor = SimurghRegressor(epochs=6, random_state=1).fit(frame, pandas.Series(prices, name="price"))
regressor.save("prices")
test.assign(price=test_prices).to_csv("test.csv", index=False)
p = scores_of("prices", "test.csv")
report, page = report_of("prices", "--input", "test.csv", "--by", "site,age")
of_label = report["labels"][0]
near(of_label["metrics"]["rmse"], mean_squared_error(test_prices, p) ** 0.5, "RMSE", 1e-5)
near(of_label["metrics"]["constant_rmse"], np.std(test_prices), "RMSE of the mean", 1e-5)
residuals = test_prices - p
near(of_label["residuals"]["mean"], residuals.mean(), "mean residual", 1e-3)
near(of_label["residuals"]["mean_absolute"], np.abs(residuals).mean(), "mean absolute residual", 1e-4)
for value, wanted in zip(of_label["residuals"]["percentiles"], np.percentile(residuals, [1, 5, 25, 50, 75, 95, 99])):
    near(value, wanted, "percentile of the residuals", 1e-3)
sizes = [one["rows"] for one in next(one for one in report["segments"] if one["column"] == "age")["segments"]]
expect(len(sizes) == 8 and sum(sizes) == 4000 and min(sizes) > 300, f"ranges of a number: {sizes}")
check_numbers_of_page(report, page)
check_importance(regressor, "prices", test, test_prices, {"neg_root_mean_squared_error": "loss_increase"}, None)
