"""`simurgh tune` finds a better learning rate than the written one, survives SIGKILL, and says what is wrong."""

import csv
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from package import *

try:
    import optuna  # noqa: F401
except ImportError as error:
    skip(f"{error}; scripts/test.sh installs tests/requirements.txt")

import numpy as np

from case import BIN, until
from simurgh._document import Document, text_of
from simurgh.programs import run

os.environ["SIMURGH_PYTHON"] = sys.executable
random = np.random.default_rng(5)
sites, ads = random.normal(size=20), random.normal(size=30)


def write_rows(path, count):
    site, ad = random.integers(0, 20, count), random.integers(0, 30, count)
    click = random.random(count) < 1 / (1 + np.exp(-1.5 * (sites[site] + ads[ad])))
    rows = [f"s{one},a{two},{int(three)}" for one, two, three in zip(site, ad, click)]
    path.write_text("\n".join(["site,ad,clicked", *rows]) + "\n")


def config(path, tune="", more="", validation="validation: [valid.csv]", rate=3e-6):
    path.write_text(f"""
data:
  train: [train.csv]
  {validation}
  csv: {{header: true}}
  columns: [{{name: site, kind: id}}, {{name: ad, kind: id}}, {{name: clicked, kind: label}}]
tables: [{{names: [site, ad], dim: 4, optimizer: {{kind: adam, learning_rate: {rate}}}}}]
model: {{dcn_v2: {{deep: [{{linear: 8}}, relu]}}}}
training: {{batch_size: 50, epochs: 4, dense_optimizer: {{kind: adam, learning_rate: {rate}}}{more}}}
{tune}
""")
    return path


def command(*words):
    return [str(BIN / "simurgh"), "tune", *map(str, words)]


def tuned(*words, code=0):
    done = subprocess.run(command(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    expect(done.returncode == code, f"tune {words} ends with {done.returncode}, not {code}: {done.stdout}{done.stderr[-2000:]}")
    return done


def trials_in(process, count):
    """Reads the lines of a search until this number of trials has ended. Returns whether it has."""
    for line in process.stderr:
        count -= line.startswith("simurgh: trial ")
        if count == 0:
            return True
        if not line.startswith("simurgh: "):
            print(line, end="")
    return False


def numbers(text):
    return {name: float(value) for name, value in (word.split("=") for word in text.split())}


def best_loss(model):
    return min(one["logloss"] for one in simurgh.history(model) if one["event"] == "validation")


def table(folder):
    with open(folder / "trials.csv") as file:
        return list(csv.DictReader(file))


folder = pathlib.Path("data set")  # Relative paths, and a blank.
folder.mkdir()
write_rows(folder / "train.csv", 2000)
write_rows(folder / "valid.csv", 1000)
RATES = """tune:
  training.dense_optimizer.learning_rate: {low: 1e-6, high: 0.1, log: true}
  tables.N.optimizer.learning_rate: {factor: 10000}
  model.dcn_v2.deep: [[{linear: 8}, relu], [{linear: 16}, relu]]"""
clicks = config(folder / "clicks.yaml", RATES, more=", early_stopping: {metric: log_loss}")
output = folder / "clicks-tune"


def check_search():
    """A bad learning rate is written. The search is killed in its third trial, and goes on."""
    process = subprocess.Popen(command(clicks, "--trials", 8), stderr=subprocess.PIPE, text=True)
    expect(trials_in(process, 2), "two trials end")
    until(lambda: (output / "trial-2.yaml").exists(), "the third trial has begun")
    process.kill()
    process.wait()
    process.stderr.close()
    with open(output / "journal.log", "a") as file:
        file.write('{"op_code": 4, "wor')  # As a process leaves it that is killed while it writes.

    done = tuned(clicks, "--trials", 8)
    result = numbers(done.stdout)
    rows = table(output)
    expect([row["trial"] for row in rows] == [str(place) for place in range(8)], f"each trial counts once: {rows}")
    expect(all(row["state"] in ("complete", "pruned") for row in rows), f"no trial fails: {rows}")
    expect("trial 0:" not in done.stderr, f"the second call does not repeat the first trial: {done.stderr}")
    expect(any(row["state"] == "pruned" for row in rows), f"bad trials are ended early: {rows}")
    expect(result["validation_logloss"] < result["before_validation_logloss"] - 0.1, f"a better rate is found: {result}")
    best = rows[int(result["best_trial"])]
    expect(abs(float(best["logloss"]) - result["validation_logloss"]) < 1e-5, f"the table has the result: {best}")
    expect(float(best["logloss"]) == min(float(row["logloss"]) for row in rows if row["state"] == "complete"), "it is the best")
    kept = sorted(path.name for path in output.iterdir() if path.is_dir())
    expect(kept == [f"trial-{int(result['best_trial'])}"], f"only the best model is kept: {kept}")

    # A first trial is the configuration itself.
    run("train", clicks, "--standalone", "--set", "checkpoint.directory=first")
    best_of_first = best_loss(folder / "first")
    expect(float(rows[0]["logloss"]) == best_of_first, f"trial 0 has {rows[0]['logloss']}, the configuration {best_of_first}")

    # The best configuration trains by itself, also from another folder, to the same numbers.
    run("train", output / "best.yaml", "--standalone")
    alone = best_loss(output / "best-model")
    expect(float(best["logloss"]) == alone, f"best.yaml has {alone}, the trial {best['logloss']}")

    # A call with the same number has nothing to do.
    again = tuned(clicks, "--trials", 8)
    expect(numbers(again.stdout) == result, f"the result stays: {again.stdout}")
    other = tuned(clicks, "--set", "training.epochs=5", code=2)
    expect("another configuration: training.epochs was 4, and is 5" in other.stderr, other.stderr)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.names = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        expect(not {"src", "href"} & {name for name, _ in attributes}, f"{tag} loads nothing: {attributes}")
        if tag not in ("meta", "circle", "line", "rect", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.names.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            expect(self.open.pop() == tag, f"{tag} ends in order")


def check_page():
    text = (output / "report.html").read_text()
    page = Page(text)
    expect(not page.open, f"all tags are closed: {page.open}")
    expect("script" not in page.names and "prefers-color-scheme: dark" in text, "no scripts, two schemes")
    rows = table(output)
    points = re.findall(r"<title>trial (\d+): ([0-9.]+), (\w+)</title>", text)
    wanted = [(row["trial"], f"{float(row['logloss']):.5f}", row["state"]) for row in rows]
    expect(points == wanted, f"the plot has {points}, the table {wanted}")
    expect("<h2>Importance</h2>" in text or len({row["logloss"] for row in rows if row["state"] == "complete"}) < 2, "importances")


def check_python():
    """Two jobs, and the default space, whose first trial is the written one."""
    path = config(folder / "plain.yaml", rate=1e-3)
    result = simurgh.tune(path, trials=4, jobs=2, output="two", settings={"training.epochs": 2})
    rows = table(pathlib.Path("two"))
    expect(len(rows) == 4 and result.metric == max(float(row["auc"]) for row in rows if row["state"] == "complete"), f"{rows}")
    expect({"network", "width", "dropout", "tables.N.dim", "training.batch_size"} <= set(rows[0]), f"{rows[0]}")
    expect([rows[0][key] for key in ("network", "width", "dropout", "tables.N.dim", "training.batch_size")]
           == ["dcn_v2", "1", "0", "4", "50"], f"the first trial is the configuration: {rows[0]}")
    expect(result.config.exists() and result.model.is_dir(), f"{result}")
    expect(all(rows[result.trial][key] == value for key, value in result.settings.items()), f"{result} {rows}")


def check_paths():
    """Files that choices name are found from the search's folder."""
    schema = json.loads(subprocess.run([BIN / "simurgh", "schema"], check=True, capture_output=True, text=True).stdout)
    document = Document("data: {train: a.csv}\ntune: {data.train: [[a.csv, /b.csv], 's3://bucket/c'], training.epochs: [1]}\n")
    document.move(pathlib.Path("/configs"), pathlib.Path("/configs/search"), schema)
    choices = [choice for _, choice in document.get("tune").value]
    expect([text_of(one) for one in choices] == ["[[../a.csv, /b.csv], 's3://bucket/c']", "[1]"], f"{[text_of(one) for one in choices]}")


def check_interrupt():
    """Ctrl-C keeps what is there, and says how to go on."""
    words = (clicks, "--trials", 50, "--output", "stopped")
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect(trials_in(process, 1), "a trial ends")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    expect(process.returncode == 130, f"it ends with {process.returncode}: {err}")
    expect("continue them: simurgh tune 'data set/clicks.yaml' --trials 50 --output stopped" in err, err)
    expect("validation_logloss=" in out and pathlib.Path("stopped/best.yaml").exists(), f"the best so far is there: {out}{err}")


def check_errors():
    def bad(words, *parts, code=2):
        error = tuned(*words, code=code).stderr
        for part in parts:
            expect(part in error, f"the error has {part!r}: {error}")

    bad((clicks, "--trials", 0), "--trials 0 is out of range; use 1 or more")
    bad((clicks, "--minutes", -1), "--minutes -1 is out of range")
    bad((clicks, "--minutes", "nan"), "--minutes nan is out of range")
    bad(("no.yaml",), "no.yaml", "give the path")
    bad((config(folder / "none.yaml", validation=""),), "data.validation is missing", "simurgh init")
    bad((config(folder / "typo.yaml", "tune: {training.batchsize: [1]}"),), "typo.yaml:", "tune.training.batchsize: unknown key")
    bad((config(folder / "low.yaml", "tune: {training.batch_size: {low: 9, high: 1}}"),), "low is not below high")
    bad((config(folder / "place.yaml", "tune: {data.columns.99.kind: [skip]}"),), "tune.data.columns.99.kind: skip cannot be tried",
        "data.columns has ", " elements")
    bad((config(folder / "table.yaml", "tune: {tables.N.lerning_rate: [0.1]}"),), "tune.tables.N.lerning_rate: 0.1 cannot be tried",
        "unknown key")
    bad((config(folder / "range.yaml", "tune: {training.batch_size: {low: 8, high: 999999999}}"),), "999999999 cannot be tried")
    bad((clicks, "--output", folder / "train.csv"), "train.csv", "use another --output")
    bad((config(folder / "fails.yaml", "tune: {training.batch_size: [50, 60]}"), "--trials", 2, "--set",
         "data.csv.header=false"), "all 2 trials failed; the first one: ", "'clicked' is not a label, 0 or 1", code=3)
    environment = dict(os.environ, SIMURGH_PYTHON="/no/python")
    done = subprocess.run(command(clicks), capture_output=True, text=True, env=environment)
    expect(done.returncode == 3 and "/no/python: No such file" in done.stderr, f"a missing Python is an error: {done.stderr}")
    # Without Optuna, which a module of this name hides.
    hidden = pathlib.Path("hidden")
    hidden.mkdir()
    (hidden / "optuna.py").write_text("raise ImportError('hidden')\n")
    done = subprocess.run(command(clicks), capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(hidden.resolve())))
    expect(done.returncode == 2 and "pip install optuna" in done.stderr, f"a missing Optuna is an error: {done.stderr}")
    # A Python without the package, since the programs lie elsewhere.
    lone = pathlib.Path("lone")
    lone.mkdir()
    shutil.copy(BIN / "simurgh", lone)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([lone / "simurgh", "tune", clicks], capture_output=True, text=True, env=environment)
    expect(done.returncode == 2 and "install its wheel" in done.stderr, f"a missing package is an error: {done.stderr}")
    raises(simurgh.InvalidError, lambda: simurgh.tune(clicks, trials=0), "--trials 0")


for check in (check_search, check_page, check_python, check_paths, check_interrupt, check_errors):
    begin = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
