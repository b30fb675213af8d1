"""Implements scripts/dev metrics, and tells tests which metrics exist."""

import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

PAGE = "config/monitoring/README.md"
BEGIN = "<!-- begin of generated metrics; scripts/dev metrics writes them -->\n"
END = "<!-- end of generated metrics -->\n"
PROGRAMS = ["embedding-ps", "embedding-worker", "nn-worker", "simurgh-feed", "row-server", "simurgh"]

# Part of the name after simurgh_, heading.
GROUPS = {
    "build": "All processes", "process": "All processes", "rpc": "Calls between daemons",
    "ps": "embedding-ps", "worker": "embedding-worker", "nn": "nn-worker", "loader": "simurgh-feed",
    "serve": "simurgh serve"}


class Metric(NamedTuple):
    type: str
    labels: tuple
    help: str


def metrics_of_programs():
    """All metrics by name."""
    found = {}
    for program in PROGRAMS:
        path = pathlib.Path(os.environ.get("SIMURGH_BIN_DIR", "build/release/bin"), program)
        text = subprocess.run([path, "--describe-metrics"], check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in text.splitlines():
            name, kind, labels, meaning = line.split("\t")
            metric = Metric(kind, tuple(labels.split()), meaning)
            if found.setdefault(name, metric) != metric:
                raise SystemExit(f"{program}: {name} differs from that of another program")
    return found


def unit_of(name, kind):
    name = name.removesuffix("_total")
    if name.endswith("_time_seconds"):
        return "Unix time in s"
    for suffix, unit in (("_seconds", "s"), ("_bytes", "bytes"), ("loss", "nats"), ("_auc", "ratio"),
                         ("_calibration", "ratio")):
        if name.endswith(suffix):
            return unit
    return "count" if kind != "gauge" or not name.endswith(("_info", "_ready", "_step")) else ""


def tables(metrics):
    lines = []
    for heading in dict.fromkeys(GROUPS.values()):
        lines += ["", f"### {heading}", "", "| metric | type | unit | labels | meaning |",
                  "|---|---|---|---|---|"]
        for name, metric in sorted(metrics.items()):
            if GROUPS[name.split("_")[1]] == heading:
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                unit = unit_of(name, metric.type)
                lines.append(f"| `{name}` | {metric.type} | {unit} | {labels} | {metric.help} |")
    return "\n".join(lines[1:]) + "\n"


def page(metrics):
    """The whole page, with the list of these metrics."""
    before, rest = pathlib.Path(PAGE).read_text().split(BEGIN)
    return before + BEGIN + tables(metrics) + END + rest.split(END)[1]


def main():
    text = page(metrics_of_programs())
    if "--check" not in sys.argv:
        pathlib.Path(PAGE).write_text(text)
    elif pathlib.Path(PAGE).read_text() != text:
        sys.exit(f"{PAGE} differs from the programs; run scripts/dev metrics")


if __name__ == "__main__":
    main()
