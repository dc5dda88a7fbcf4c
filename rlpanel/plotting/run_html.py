"""A run as HTML for notebooks: its size, its reward curve and its findings."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlpanel.display_settings import Display
from rlpanel.folded_html import escaped
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.panels.plots.plain_plots import line_svg
from rlpanel.panels.plots.series import band_of, curve
from rlpanel.panels.ui.theme import SEVERITY_COLORS
from rlpanel.plotting.element_style import colors_of
from rlpanel.store.snapshot.run_view import RunView

#: Maximum number of findings that are shown.
MAX_FINDINGS = 5
_STYLE = (
    "<style>.rl-run svg { width: 360px; height: 64px; display: block; margin: 4px 0 }"
    ".rl-run polyline { fill: none; stroke: currentColor; stroke-width: 1.6;"
    " vector-effect: non-scaling-stroke }"
    ".rl-run .band { fill: currentColor; opacity: 0.18; stroke: none }"
    ".rl-run ul { margin: 4px 0; padding-left: 1.4em }</style>"
)


def run_html(view: RunView, findings: pd.DataFrame) -> str:
    """Return the HTML; texts of the log are escaped.

    Parameters
    ----------
    view : RunView
    findings : DataFrame
        As `Run.findings` returns it.
    """
    snapshot, colors = view.snapshot, colors_of(None)
    steps = snapshot.steps.values
    ends = f" ({steps[0]}–{steps[-1]})" if len(steps) else ""
    split = f" · split {snapshot.split}" if len(snapshot.splits) > 1 else ""
    head = f"{_count(len(steps), 'step')}{ends} · {_count(snapshot.samples, 'sample')} · "
    head += f"{_count(snapshot.ranks, 'rank')}{split}"
    variables = "".join(f"--rl-{name}:{value};" for name, value in colors.items())
    return (
        f'{_STYLE}<div class="rl-run" style="{variables}"><b>{escaped(snapshot.name)}</b><br>{escaped(head)}'
        f"{_curve(view)}{_list(findings)}</div>"
    )


def _count(number_of: int, noun: str) -> str:
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"


def _curve(view: RunView) -> str:
    if not view.snapshot.has_number("reward"):
        return ""
    band = band_of(view, "reward", "iqr")
    points = curve(view, "reward", Display(band=band))
    svg = line_svg(points["x"], points["y"], points["lo"], points["hi"], describe("reward").color)
    finite = points["y"][np.isfinite(points["y"])]
    ends = f"{number(finite[0])} → {number(finite[-1])}" if len(finite) else ""
    around = "2 standard errors" if band == "se" else "quartiles"
    return f"<br>reward, mean and {around}: {ends}{svg}"


def _list(findings: pd.DataFrame) -> str:
    rows = list(zip(findings["severity"], findings["sentence"], strict=True))
    items = "".join(
        f'<li><b style="color: var(--rl-{SEVERITY_COLORS.get(severity, "muted")})">{escaped(severity)}</b> '
        f"{escaped(sentence)}</li>"
        for severity, sentence in rows[:MAX_FINDINGS]
    )
    more = f"<li>{len(rows) - MAX_FINDINGS:,} more: run.findings</li>" if len(rows) > MAX_FINDINGS else ""
    return f"<ul>{items}{more}</ul>" if items else "<br>no findings"
