"""simurgh update with several ranks and servers, in asynchronous mode, and with two labels.

Each cluster trains on a first day, is updated by a second day in which items have other tastes, and
must then predict the second day's test rows better than before.
"""

import json
import re
import shutil

from case import clicks, cluster_yaml, expect, free_port, np, simurgh, write

SHIFT = np.random.default_rng(5).normal(0, 2, 40)


def write_day(path, seed, rows, shift, has_second):
    """Rows of a day as JSON lines. The second label is missing in half of them."""
    user, item, price, _, _, odds = clicks(rows, seed=seed)
    random = np.random.default_rng(seed)
    label = (random.random(rows) < 1 / (1 + np.exp(-odds - shift[item]))).astype(int)
    second = (random.random(rows) < 1 / (1 + np.exp(odds + shift[item]))).astype(int)
    with open(path, "w") as file:
        for i in range(rows):
            row = {"user": f"u{user[i]}", "item": f"i{item[i]}", "price": price[i],
                   "label": int(label[i])}
            if has_second:
                row["second"] = int(second[i]) if i % 2 else None
            file.write(json.dumps(row) + "\n")


def instances(count):
    return ", ".join(f'{{address: "127.0.0.1:{free_port()}"}}' for _ in range(count))


def check(name, cluster, mode, model, labels):
    has_second = len(labels) > 1
    for path, seed, rows, shift in (("day1", 11, 4000, 0 * SHIFT), ("day2", 21, 4000, SHIFT),
                                    ("test2", 22, 2000, SHIFT)):
        write_day(f"{path}.json", seed, rows, shift, has_second)
    second = "    - {name: second, kind: label}\n" if has_second else ""
    with open(f"{name}.yaml", "w") as file:
        file.write(cluster + f"""
data:
  format: json
  train: [day1.json]
  columns:
    - {{name: user, kind: id}}
    - {{name: item, kind: id}}
    - {{name: price, kind: dense, transform: log1p}}
    - {{name: label, kind: label}}
{second}tables: [{{names: [user, item], dim: 8, optimizer: {{learning_rate: 0.05}}}}]
model: {model}
training: {{mode: {mode}, epochs: 2, batch_size: 64}}
checkpoint: {{directory: {name}}}
""")
    simurgh("train", f"{name}.yaml")
    before = aucs(name, labels)
    done = simurgh("update", name, "--data", "day2.json")
    expect(done.value("new_rows") == 4000, f"{name}: each new row counts once: {done.out}")
    after = aucs(name, labels)
    for label in labels:
        expect(after[label] > before[label] + 0.05,
               f"{name}: AUC of {label} on the second day: {before[label]}, then {after[label]}")


def aucs(model, labels):
    """The AUC of each label on the second day's test rows."""
    text = simurgh("predict", "--model", model, "--input", "test2.json", "--evaluate").out
    if len(labels) == 1:
        return {labels[0]: float(re.search(r"^test_auc=([\d.]+)", text, re.M)[1])}
    return {label: float(re.search(rf"^label={label} test_auc=([\d.]+)", text, re.M)[1])
            for label in labels}


def short_batch():
    """A last batch of one row moves the model as little as one row of a full batch."""
    user, item, price, hour, label, _ = clicks(6000)
    rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, hour, label))
    header = ["user", "item", "price", "hour", "label"]
    write("first.csv", header, rows[:5000])
    write("rest.csv", header, rows[5000:])
    simurgh("init", "first.csv")
    simurgh("train", "first.yaml", "--refit")
    with open("first.yaml") as file:
        batch = int(re.search(r"batch_size: (\d+)", file.read())[1])
    predictions = []
    for count in (4 * batch, 4 * batch + 1):
        shutil.copytree("first-model", f"first-{count}")
        write("new.csv", header, rows[5000:5000 + count])
        simurgh("update", f"first-{count}", "--data", "new.csv")
        simurgh("predict", "--model", f"first-{count}", "--input", "rest.csv", "--output", "p.csv")
        predictions.append(np.loadtxt("p.csv", skiprows=1))
    distance = np.abs(predictions[0] - predictions[1]).mean()
    expect(distance < 0.001, f"mean distance of predictions: {distance}")


def corrected_once():
    """New rows with more positives are learned by the network or by the calibration, not by both."""
    def day(path, count, seed, shift):
        user, item, price, _, _, odds = clicks(count, seed=seed)
        label = np.random.default_rng(seed).random(count) < 1 / (1 + np.exp(-odds - shift))
        write(path, ["user", "item", "price", "label"],
              zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label.astype(int)))

    day("even.csv", 10000, 1, 0)
    day("test.csv", 10000, 3, 1.5)
    simurgh("init", "even.csv")
    simurgh("train", "even.yaml", "--refit")
    for count, of_rows in ((1000, "new"), (20000, "old")):
        day("more.csv", count, 2, 1.5)
        shutil.copytree("even-model", f"even-{count}")
        done = simurgh("update", f"even-{count}", "--data", "more.csv")
        expect(f"calibration={of_rows}" in done.out, f"{count} rows: {done.out}")
        tested = simurgh("predict", "--model", f"even-{count}", "--input", "test.csv", "--evaluate",
                         "--json")
        mean = json.loads(tested.out)["test_calibration"]
        expect(0.9 < mean < 1.1, f"{count} rows: mean prediction over mean label {mean}")


two = "cluster: {name: case}\n"
for section in ("embedding_ps", "embedding_worker", "nn_worker"):
    two += f"{section}: {{instances: [{instances(2)}]}}\n"
towers = """
  towers:
    - {name: all, input: [dense, embeddings], layers: [{linear: 32}, relu, {linear: 2}]}
"""
check("asynchronous", two, "async", "deepfm", ["label"])
check("ranks", two, "sync", "deepfm", ["label"])
check("labels", cluster_yaml(), "hybrid", towers, ["label", "second"])
short_batch()
corrected_once()
