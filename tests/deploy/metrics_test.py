"""Compares the list of metrics in config/monitoring/README.md with the sources and a running cluster."""

import pathlib
import re
import sys

from example_cluster import ExampleCluster, await_that, get

sys.path.insert(0, "scripts/dev.d")
import metrics  # noqa: E402

# Of the last daemon to count something. The first also shows that labels of rare metrics are right.
LAST = ["simurgh_ps_table_evictions_total", "simurgh_nn_validation_auc",
        "simurgh_nn_task_auc", "simurgh_nn_checkpoint_rows",
        "simurgh_serve_trained_to_served_seconds", "simurgh_serve_unseen_ids_total",
        "simurgh_loader_samples_total"]
# Not by any start of the word simurgh_, which plug-ins use, too.
NAME = rf'"(simurgh_(?:{"|".join(metrics.GROUPS)})_\w+[a-z])"'


def on_page():
    text = pathlib.Path(metrics.PAGE).read_text()
    row = r"^\| `(simurgh_\w+)` \| (\w+) \| [^|]*\| ([^|]*) \| (.*) \|$"
    return {name: (kind, set(re.findall(r"\w+", labels)), meaning)
            for name, kind, labels, meaning in re.findall(row, text, re.MULTILINE)}


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


def named_in_sources():
    names = set()
    for root in ("rpc", "src", "services"):
        for path in pathlib.Path(root).rglob("*"):
            if path.suffix in (".h", ".cc"):
                names |= set(re.findall(NAME, path.read_text()))
    return {re.sub("_(sum|count|bucket)$", "", name) for name in names}


def main():
    page = on_page()
    generated = {name: (one.type, set(one.labels), one.help)
                 for name, one in metrics.metrics_of_sources().items()}
    problems = [f"{name}: the page and the sources differ; run scripts/dev metrics"
                for name in sorted(page.keys() | generated.keys())
                if page.get(name) != generated.get(name)]
    problems += [f"{name}: the sources name it, and the page lacks it"
                 for name in sorted(named_in_sources() - page.keys())]
    with ExampleCluster("tables.0.capacity_rows=50", config="adult-tasks.yaml") as cluster:
        def last_are_there():
            cluster.predict()
            found = scraped(cluster.targets)
            return found if all(name in found for name in LAST) else None
        running = await_that(f"cluster with {LAST}", last_are_there)
    problems += [f"{name}: the cluster has {seen}, the page {page.get(name)}"
                 for name, seen in sorted(running.items()) if page.get(name) != seen]
    print(*problems, f"{len(page)} metrics, {len(running)} of them in the cluster", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
