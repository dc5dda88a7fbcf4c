"""The parts of the reward stacked over steps: what each adds to the mean reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.analysis.reward_parts import RewardPart, group_rows
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import ON_BOARD, finish_on_board, holoviews
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.shorten import plot_text

#: Parts with a colour of their own; the others are added up.
MAX_PARTS = 5
_HEIGHT = 190
#: Characters of a name in the legend.
_NAME = 32


@dataclass(frozen=True)
class PartStack:
    """Contributions of parts by step, stacked: positive ones above 0, negative ones below.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
    names : tuple of str
        Parts, the largest contribution first.
    contribution, low, high : ndarray of float, shape (parts, S)
        Weight times mean of each part, 0 where it is not known; and the edges of its area.
    reward : ndarray of float, shape (S,)
        Mean reward.
    unknown : tuple of str
        Parts without a weight, which the stack cannot show.
    """

    steps: np.ndarray
    names: tuple[str, ...]
    contribution: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reward: np.ndarray
    unknown: tuple[str, ...]


def mean_rewards(view: RunView, rows: np.ndarray) -> dict[int, float]:
    """Return the mean of the finite rewards of some rows by step."""
    found = group_rows(view, rows)
    reward = view.counted("reward", found.rows).astype(float) if len(found.rows) else np.empty(0)
    steps, at = np.unique(found.step, return_inverse=True)
    means = np.bincount(at, reward, len(steps)) / np.bincount(at, minlength=len(steps))
    return dict(zip(steps.tolist(), means.tolist(), strict=True))


def part_stack(parts: Sequence[RewardPart], reward: Mapping[int, float], others: str = "others") -> PartStack:
    """Return the stack of parts by step; those of all steps are left out.

    Parameters
    ----------
    parts : sequence of RewardPart
    reward : mapping of int to float
        Mean reward by step.
    others : str
        Name of the sum of the parts beyond `MAX_PARTS`.
    """
    by_step = [(part.step, part.name, part.contribution) for part in parts if part.step is not None]
    steps = np.unique(np.array([step for step, _, _ in by_step], np.int64))
    known = list(dict.fromkeys(name for _, name, value in by_step if value is not None))
    unknown = tuple(dict.fromkeys(name for _, name, _ in by_step if name not in known))
    values = np.zeros((len(known), len(steps)))
    for step, name, value in by_step:
        if value is not None:
            values[known.index(name), np.searchsorted(steps, step)] = value
    order = np.argsort(-np.abs(values).sum(axis=1), kind="stable")
    values, names = values[order], [known[at] for at in order.tolist()]
    if len(names) > MAX_PARTS:
        values = np.vstack([values[: MAX_PARTS - 1], values[MAX_PARTS - 1 :].sum(axis=0)])
        names = [*names[: MAX_PARTS - 1], others]
    above, below = np.maximum(values, 0).cumsum(axis=0), np.minimum(values, 0).cumsum(axis=0)
    is_up = values >= 0
    high = np.where(is_up, above, below - np.minimum(values, 0))
    low = np.where(is_up, above - np.maximum(values, 0), below)
    means = np.array([reward.get(step, np.nan) for step in steps.tolist()])
    return PartStack(steps, tuple(names), values, low, high, means, unknown)


def colors_of(count: int, dark: bool) -> tuple[str, ...]:
    """Return the colours of parts in their order."""
    return theme.CATEGORIES[dark][1 : 1 + count]


def stack_plot(stack: PartStack, step: int | None, dark: bool) -> Any:
    """Return the areas, the mean reward as a line, and a mark at a step; None with fewer than two steps."""
    if len(stack.steps) < 2 or not stack.names:
        return None
    hv, text = holoviews(), theme.palette(dark)["text"]
    drawn = [
        hv.Area((stack.steps, high, low), "step", [f"high {at}", f"low {at}"]).opts(
            color=color, line_color=color, alpha=0.75, line_width=0.5, backend="bokeh"
        )
        for at, (high, low, color) in enumerate(
            zip(stack.high, stack.low, colors_of(len(stack.names), dark), strict=True)
        )
    ]
    line = hv.Curve((stack.steps, stack.reward), "step", "reward").opts(
        color=text, line_width=1.5, backend="bokeh"
    )
    drawn.append(line)
    if step is not None:
        drawn.append(hv.VLine(step).opts(color=text, line_width=1, line_dash="dotted", backend="bokeh"))
    options = {**ON_BOARD, "height": _HEIGHT, "responsive": True, "xlabel": "", "ylabel": ""}
    return hv.Overlay(drawn).opts(**options, show_legend=False, hooks=[_hook(dark)])


def _hook(dark: bool) -> Any:
    def finish(plot: Any, _: Any) -> None:
        figure = plot.state
        finish_on_board(figure, dark)
        figure.yaxis.ticker.desired_num_ticks = 4
        figure.toolbar_location = None

    return finish


def legend_html(stack: PartStack, dark: bool) -> str:
    """Return the names of the areas with their colours, and of the line, as HTML."""
    colors = colors_of(len(stack.names), dark)
    marks = [f'<i style="background:{color}"></i>' for color in colors] + ['<i class="line"></i>']
    names = [*(plot_text(name, _NAME) for name in stack.names), tr("mean reward")]
    items = [
        f'<span class="part">{mark}{theme.safe_text(name)}</span>'
        for mark, name in zip(marks, names, strict=True)
    ]
    return f'<p class="legend">{"".join(items)}</p>'
