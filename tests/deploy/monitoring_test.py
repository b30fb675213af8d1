"""Runs the real Prometheus with config/monitoring on a cluster that trains and serves."""

import json
import re
import subprocess
import sys

from example_cluster import ExampleCluster, await_that
from prometheus import FOLDER, Prometheus, missing_program

sys.path.insert(0, "scripts/dev.d")
import metrics  # noqa: E402

# Counters that appear with a failure.
RARE = {"simurgh_serve_versions_refused_total"}
# Of metrics; those of recording rules have a colon.
NAMES = r"(?<!:)\bsimurgh_\w+"


def check_files():
    """Also the unit tests of the alerts."""
    for command, name in (("check config", "prometheus.yml"), ("check rules", "alerts.yml"),
                          ("test rules", "alerts_test.yml")):
        done = subprocess.run(["promtool", *command.split(), name], cwd=FOLDER, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            yield f"promtool {command} {name}:\n{done.stdout}"


def check_runbooks(alerts):
    page = (FOLDER / "README.md").read_text()
    headings = {f"README.md#{one.lower()}" for one in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    for alert in alerts:
        if alert["annotations"]["runbook"] != f"README.md#{alert['name'].lower()}":
            yield f"{alert['name']}: the runbook is {alert['annotations']['runbook']}"
        if alert["annotations"]["runbook"] not in headings:
            yield f"{alert['name']}: README.md has no such heading"
    tests = set(re.findall(r'^  - name: "(\w+): ', (FOLDER / "alerts_test.yml").read_text(), re.MULTILINE))
    for name in {alert["name"] for alert in alerts} ^ tests:
        yield f"{name}: not both an alert and a test that it fires"


def expressions(dashboard):
    """Title of the panel, expression."""
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield f"{dashboard.name}: {panel['title']}", target["expr"]


def queries(prometheus):
    """All that must return data: name, expression."""
    for dashboard in sorted(FOLDER.glob("*.json")):
        for title, expression in expressions(dashboard):
            yield title, expression.replace("$__rate_interval", "10s")
    for alert in prometheus.rules():
        # With `bool` a comparison returns its result instead of dropping the series.
        loose = re.sub(r"(?<= )([<>]=?|==)(?= )", r"\1 bool", alert["query"]).replace(" unless ", " or ")
        yield alert["name"], loose
        for name in sorted(set(re.findall(NAMES, alert["query"])) - RARE):
            yield alert["name"], name


def check_metrics(expressions_of):
    known = metrics.metrics_of_programs()
    for title, expression in expressions_of:
        for name in re.findall(NAMES, expression):
            if name not in known and re.sub("_(bucket|sum|count)$", "", name) not in known:
                yield f"{title}: no program has {name}"


def main():
    if missing_program():
        return 77
    problems = list(check_files())
    # A small table evicts rows, which an alert and a panel need.
    with ExampleCluster("tables.0.capacity_rows=50") as cluster:
        prometheus = Prometheus(cluster)

        def targets_down():
            cluster.predict()
            return [f"{one['scrapeUrl']}: {one['health']} {one['lastError']}"
                    for one in prometheus.get("targets")["activeTargets"] if one["health"] != "up"]

        def targets_are_up():
            return not targets_down()
        await_that("targets that are up", targets_are_up)
        alerts = await_that("alerts", prometheus.rules)
        problems += check_runbooks(alerts)
        wanted = list(queries(prometheus))
        problems += check_metrics(wanted)
        empty = set(wanted)

        def all_have_data():
            cluster.predict()
            empty.difference_update([one for one in list(empty) if prometheus.values(one[1])])
            return not empty
        try:
            await_that("data of all expressions", all_have_data)
        except SystemExit:
            problems += [f"{title}: invalid, or no data: {expression}" for title, expression in sorted(empty)]
        problems += [f"{one['name']}: {one['health']} {one.get('lastError', '')}"
                     for one in prometheus.rules() if one["health"] != "ok"]
        try:  # A scrape may be late.
            await_that("targets that are still up", targets_are_up)
        except SystemExit:
            problems += targets_down()
        targets = len(prometheus.get("targets")["activeTargets"])
    print(*problems, f"{targets} targets, {len(wanted)} expressions", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
