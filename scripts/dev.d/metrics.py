"""Implements scripts/dev metrics, and tells tests which metrics exist."""

import pathlib
import re
import sys
from typing import NamedTuple

PAGE = "config/monitoring/README.md"
BEGIN = "<!-- begin of generated metrics; scripts/dev metrics writes them -->\n"
END = "<!-- end of generated metrics -->\n"

# Part of the name after simurgh_, heading.
GROUPS = {
    "build": "All processes", "process": "All processes", "rpc": "Calls between daemons",
    "ps": "embedding-ps", "worker": "embedding-worker", "nn": "nn-worker", "loader": "simurgh-feed",
    "serve": "simurgh serve"}

# Labels of calls that do not name them, by file and the argument.
LABELS = {
    ("rpc_setup", "labels"): ["side", "method"],
    ("rpc_setup", "all"): ["side", "method", "code"],
    ("server_metrics", "labels"): ["table", "cause"],
    ("server_metrics", "labels_"): ["table"],
    ("train_report", "labels"): ["task"],
}
# Methods of the sources that create a metric. Their type, and labels that they add.
METHODS = {
    "GetCounter": ("counter", []),
    "GetGauge": ("gauge", []),
    "GetHistogram": ("histogram", []),
    "AddComputedGauge": ("gauge", []),
    "CounterOf": ("counter", ["side"]),
    "Count": ("counter", ["table"]),
}
TEXT = r'"(?:[^"\\]|\\.)*"'
TEXTS = rf"{TEXT}(?:\s*{TEXT})*"


class Metric(NamedTuple):
    type: str
    labels: tuple
    help: str


def unquoted(texts):
    return "".join(one[1:-1] for one in re.findall(TEXT, texts))


def arguments(text, begin):
    """The text from `begin` to the end of the call."""
    depth, at = 1, begin
    while depth > 0:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[begin:at - 1]


def metrics_of_sources():
    """All metrics by name."""
    found = {}
    paths = [path for root in ("rpc", "src", "services") for path in pathlib.Path(root).rglob("*")
             if path.suffix in (".h", ".cc")]
    for path in sorted(paths):
        text = path.read_text()
        for match in re.finditer(rf'"(simurgh_\w+)",\s*({TEXTS})', text):
            methods = re.findall(rf"\b({'|'.join(METHODS)})\(", text[:match.start()])
            kind, labels = METHODS[methods[-1]]
            rest = re.sub(TEXTS, lambda one: one[0] if one[0][1:-1].isidentifier() else "",
                          arguments(text, match.end()))
            labels = labels + re.findall(r'\{"(\w+)",', rest)
            for variable in re.findall(r"\b(?:labels_?|all)\b", rest):
                labels = labels + LABELS[path.stem, variable]
            metric = Metric(kind, tuple(labels), unquoted(match[2]))
            if found.setdefault(match[1], metric) != metric:
                raise SystemExit(f"{path}: {match[1]} differs from an earlier one")
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


def main():
    page = pathlib.Path(PAGE)
    before, rest = page.read_text().split(BEGIN)
    text = before + BEGIN + tables(metrics_of_sources()) + END + rest.split(END)[1]
    if "--check" not in sys.argv:
        page.write_text(text)
    elif page.read_text() != text:
        sys.exit(f"{PAGE} differs from the sources; run scripts/dev metrics")


if __name__ == "__main__":
    main()
