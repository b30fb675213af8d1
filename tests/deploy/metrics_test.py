"""Compares the list of metrics in config/monitoring/README.md with the programs and a running cluster."""

import difflib
import pathlib
import re
import sys

from example_cluster import ExampleCluster, await_that, get

sys.path.insert(0, "scripts/dev.d")
import metrics  # noqa: E402

# Metrics that appear last, one a daemon. The first also shows that labels of rare metrics are right.
LAST = ["simurgh_ps_table_evictions_total", "simurgh_nn_validation_auc",
        "simurgh_nn_task_auc", "simurgh_nn_checkpoint_rows",
        "simurgh_serve_trained_to_served_seconds", "simurgh_serve_unseen_ids_total",
        "simurgh_loader_samples_total"]


def scraped(targets):
    """Type, label names and help by name, as in the text of Prometheus."""
    found = {}
    for target in sum(targets.values(), []):
        text = get(f"http://{target}/metrics")
        helps = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
            series = re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:\{{(.*)\}})? ", text, re.MULTILINE)
            labels = {one for text in series for one in re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', text)}
            found[name] = (kind, labels - {"le"}, helps[name])
    return found


def main():
    known = metrics.metrics_of_programs()
    differences = difflib.unified_diff(
        pathlib.Path(metrics.PAGE).read_text().splitlines(), metrics.page(known).splitlines(),
        metrics.PAGE, "programs; run scripts/dev metrics", lineterm="", n=0)
    problems = list(differences)
    with ExampleCluster("tables.0.capacity_rows=50", config="adult-tasks.yaml") as cluster:
        def last_are_there():
            cluster.predict()
            found = scraped(cluster.targets)
            return found if all(name in found for name in LAST) else None
        running = await_that(f"cluster with {LAST}", last_are_there)
    expected = {name: (one.type, set(one.labels), one.help) for name, one in known.items()}
    problems += [f"{name}: the cluster has {seen}, the page {expected.get(name)}"
                 for name, seen in sorted(running.items()) if expected.get(name) != seen]
    print(*problems, f"{len(known)} metrics, {len(running)} of them in the cluster", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
