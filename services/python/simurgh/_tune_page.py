"""The page that compares the trials of `simurgh tune`: one HTML file with plots as SVG, without scripts."""

import html
import math
import warnings

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #6b6b6b; --line: #d8d8d8; --paper: #fff; --good: #0072b2; --cut: #e69f00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --soft: #a3a3a3; --line: #444; --paper: #161616; --good: #56b4e9; --cut: #e69f00; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; } p { margin: .3rem 0 .8rem; }
.soft, figcaption, summary { color: var(--soft); } figure { margin: 0; } figcaption { font-size: .9rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1.2rem; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.axis { stroke: var(--line); } .done { fill: var(--good); } .pruned { fill: none; stroke: var(--cut); stroke-width: 1.5; }
.best { stroke: var(--good); fill: none; stroke-width: 1.5; } .bar { fill: var(--good); }
.scroll { overflow-x: auto; } .wide { min-width: 36rem; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.number, th.number { text-align: right; } code { font-size: .9em; }
@media print { body { margin: 0; } details { display: none; } }
"""


def _escape(text):
    return html.escape(str(text), quote=True)


def _table(head, rows, numbers):
    """Returns a table. numbers: the places of columns of numbers."""

    def cells(row, tag):
        return "".join(
            f'<{tag}{" class=number" if place in numbers else ""}>{_escape(cell)}</{tag}>' for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells(head, "th")}</tr></thead><tbody>{body}</tbody></table></div>'


def _ticks(low, high, count=4):
    step = (high - low) / count
    scale = 10 ** math.floor(math.log10(step))
    step = next(scale * one for one in (1, 2, 5, 10) if scale * one >= step)
    first = math.ceil(low / step)
    return [first * step + place * step for place in range(int((high - first * step) / step + 1e-9) + 1)]


def _bounds(values, larger_is_better):
    """Returns a range for an axis, which a few bad trials do not stretch."""
    ordered = sorted(values)
    quarter, middle, three = (ordered[int(share * (len(ordered) - 1))] for share in (0.25, 0.5, 0.75))
    reach = 4 * max(three - quarter, abs(middle) * 1e-4, 1e-9)
    low, high = ordered[0], ordered[-1]
    if larger_is_better:
        low = max(low, quarter - reach)
    else:
        high = min(high, three + reach)
    pad = max((high - low) * 0.08, abs(middle) * 1e-4, 1e-9)
    return low - pad, high + pad


class _Plot:
    """A plot of points with a value each."""

    def __init__(self, width, height, y):
        self.width, self.height, self.low, self.high = width, height, *y
        self.parts = []
        self.left, self.bottom = 58, height - 28
        for tick in _ticks(self.low, self.high):
            at = self.y(tick)
            self.parts.append(f'<line class="axis" x1="{self.left}" x2="{width - 8}" y1="{at:.1f}" y2="{at:.1f}"/>')
            self.parts.append(f'<text x="{self.left - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.6g}</text>')

    def x(self, share):
        return self.left + 12 + share * (self.width - self.left - 32)

    def y(self, value):
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - 10)

    def label(self, share, text):
        self.parts.append(f'<text x="{self.x(share):.1f}" y="{self.height - 8}" text-anchor="middle">{_escape(text)}</text>')

    def point(self, share, value, kind, title):
        self.parts.append(
            f'<circle class="{kind}" cx="{self.x(share):.1f}" cy="{self.y(value):.1f}" r="4"><title>{_escape(title)}</title></circle>'
        )

    def svg(self, title):
        wide = ' class="wide"' if self.width > 600 else ""
        return f'<svg{wide} viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{_escape(title)}">{"".join(self.parts)}</svg>'


def _importances(study):
    """Returns shares by name, largest first, and the method; nothing if there are too few trials."""
    import optuna

    names = [name for name in ("FanovaImportanceEvaluator", "PedAnovaImportanceEvaluator") if hasattr(optuna.importance, name)]
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                evaluator = getattr(optuna.importance, name)
                made = evaluator(seed=1) if name.startswith("Fanova") else evaluator()
                found = optuna.importance.get_param_importances(study, evaluator=made)
        except Exception:  # noqa: BLE001  Fanova needs scikit-learn; both need trials that differ.
            continue
        if sum(found.values()) > 0:
            return found, "fANOVA" if name.startswith("Fanova") else "PED-ANOVA"
    return {}, ""


def _by_trial(search, shown, y):
    plot = _Plot(900, 280, y)
    last = max(1, shown[-1].number)
    best, path = None, []
    for trial in shown:
        value, kind = _value(trial), _kind(trial)
        plot.point(trial.number / last, value, kind, f"trial {trial.number}: {value:.5f}, {trial.state.name.lower()}")
        if kind == "done" and (best is None or (value > best) == search.larger_is_better):
            if best is not None:
                path.append(f"{plot.x(trial.number / last):.1f},{plot.y(best):.1f}")
            best = value
            path.append(f"{plot.x(trial.number / last):.1f},{plot.y(best):.1f}")
    if best is not None:
        path.append(f"{plot.x(1):.1f},{plot.y(best):.1f}")
        plot.parts.append(f'<polyline class="best" points="{" ".join(path)}"/>')
    for number in sorted({0, last // 2, last}):
        plot.label(number / last, f"trial {number}")
    return plot.svg(f"{search.metric} by trial")


def _by_value(parameter, shown, y):
    plot = _Plot(420, 220, y)
    seen = [trial for trial in shown if parameter.name in trial.params]
    if parameter.choices is not None:
        values = [value for value in parameter.choices if any(trial.params[parameter.name] == value for trial in seen)]
        if all(isinstance(value, (int, float)) for value in values):
            values.sort()
        shares = {value: (place + 0.5) / len(values) for place, value in enumerate(values)}
        for value, share in shares.items():
            text = parameter.show(value)
            plot.label(share, text if len(text) <= 40 // len(values) + 4 else text[: 40 // len(values) + 3] + "…")
    else:
        scale = math.log if parameter.log else float
        numbers = [trial.params[parameter.name] for trial in seen]
        low, high = min(numbers), max(numbers)
        span = scale(high) - scale(low) or 1
        shares = {number: (scale(number) - scale(low)) / span for number in numbers}
        for number in sorted({low, high}):
            plot.label(shares[number], parameter.show(number))
    for trial in seen:
        value = trial.params[parameter.name]
        text = f"trial {trial.number}: {parameter.name} {parameter.show(value)}, {_value(trial):.5f}"
        plot.point(shares[value], _value(trial), _kind(trial), text)
    return plot.svg(f"by {parameter.name}")


def _value(trial):
    values = trial.intermediate_values
    return trial.value if trial.state.name == "COMPLETE" else values[max(values)]


def _kind(trial):
    return "done" if trial.state.name == "COMPLETE" else "pruned"


def _headline(search, best, first):
    name = search.config.name
    if best.number == 0:
        return f"The settings of {name} are the best of {len(search.study.trials)} trials: {search.metric} {best.value:.5f}"
    if first.state.name != "COMPLETE":
        return f"Trial {best.number} is the best of {name}: {search.metric} {best.value:.5f}"
    return f"Trial {best.number} takes {search.metric} of {name} from {first.value:.5f} to {best.value:.5f}"


def page(search):
    """Returns the page of a search with a best trial."""
    trials, best = search.study.trials, search.best
    shown = [trial for trial in trials if trial.state.name in ("COMPLETE", "PRUNED") and trial.intermediate_values]
    y = _bounds([_value(trial) for trial in shown], search.larger_is_better)
    counts = {state: len(search.trials(state)) for state in ("COMPLETE", "PRUNED", "FAIL")}
    seconds = sum(trial.user_attrs.get("seconds", 0) for trial in trials)
    better = "higher" if search.larger_is_better else "lower"
    sign = -1 if search.larger_is_better else 1
    changed = ", ".join(f"{name} = {text}" for name, text in search.values_of(best).items()) or "none"
    parts = [
        f"<h1>{_escape(_headline(search, best, trials[0]))}</h1>",
        f"<p>{counts['COMPLETE']} trials were trained to their end, {counts['PRUNED']} fell behind and were ended early, "
        f"{counts['FAIL']} failed; {seconds:.0f} s of training in all. The metric is {_escape(search.metric)} of data.validation; "
        f"{better} is better. The best of many trials looks better on these rows than on new ones: compare both on data.test.</p>",
        f"<p>Changes: {_escape(changed)}.</p>",
        f"<p>Train the best settings with <code>simurgh train {_escape(search.folder / 'best.yaml')} --refit</code></p>",
        "<h2>Trials</h2><figure>",
        f'<div class="scroll">{_by_trial(search, shown, y)}</div>',
        f"<figcaption>{_escape(search.metric)} of each trial. Filled: trained to its end. Rings: ended early. "
        "The line is the best so far. Trial 0 has the configuration's settings. Points far off lie on the edge.</figcaption>",
        "</figure>",
    ]
    rows = [
        (trial.number, trial.state.name.lower(), f"{_value(trial):.5f}" if trial in shown else "",
         len(trial.intermediate_values), trial.user_attrs.get("seconds", ""), trial.user_attrs.get("reason", ""))
        for trial in trials
    ]
    head = ("trial", "state", search.metric, "evaluations", "seconds", "reason")
    parts.append(f"<details><summary>Table of all trials</summary>{_table(head, rows, {0, 2, 3, 4})}</details>")

    parts.append("<h2>The ten best</h2>")
    ten = sorted((trial for trial in shown if trial.state.name == "COMPLETE"), key=lambda one: (sign * one.value, one.number))[:10]
    names = [one.name for one in search.parameters]
    rows = [(search.metric, *(f"{trial.value:.5f}" for trial in ten))]
    rows += [(one.name, *(one.show(trial.params[one.name]) for trial in ten)) for one in search.parameters]
    parts.append(_table(("trial", *(trial.number for trial in ten)), rows, set(range(1, 11))))
    if any(one.is_factor for one in search.parameters):
        parts.append('<p class="soft">A number such as x1.5 multiplies what the configuration has.</p>')

    importances, method = _importances(search.study)
    if importances:
        parts.append("<h2>Importance</h2><figure>")
        height = 24 * len(importances) + 8
        bars = []
        for place, (name, share) in enumerate(importances.items()):
            at = 24 * place + 16
            bars.append(f'<text x="330" y="{at + 4}" text-anchor="end">{_escape(name)}</text>')
            bars.append(f'<rect class="bar" x="340" y="{at - 7}" width="{500 * share:.1f}" height="14"><title>{share:.3f}</title></rect>')
            bars.append(f'<text x="{346 + 500 * share:.1f}" y="{at + 4}">{share:.2f}</text>')
        svg = f'<svg class="wide" viewBox="0 0 900 {height}" role="img" aria-label="importance of parameters">{"".join(bars)}</svg>'
        parts.append(f'<div class="scroll">{svg}</div>')
        parts.append(
            f"<figcaption>Share of the differences between trials that each parameter explains, by Optuna's {method}. "
            "Few trials give rough shares.</figcaption></figure>"
        )
        rows = [(name, f"{share:.4f}") for name, share in importances.items()]
        parts.append(f"<details><summary>Table</summary>{_table(('parameter', 'share'), rows, {1})}</details>")

    parts.append('<h2>Parameters</h2><p class="soft">Each point is a trial, as above.</p><div class="grid">')
    for parameter in search.parameters:
        parts.append(f"<figure><figcaption>{_escape(parameter.name)}</figcaption>{_by_value(parameter, shown, y)}</figure>")
    parts.append("</div>")
    rows = [
        (trial.number, f"{_value(trial):.5f}", *(one.show(trial.params[one.name]) for one in search.parameters)) for trial in shown
    ]
    parts.append(f"<details><summary>Table</summary>{_table(('trial', search.metric, *names), rows, {0, 1})}</details>")
    title = _escape(f"Trials of {search.config.name}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
