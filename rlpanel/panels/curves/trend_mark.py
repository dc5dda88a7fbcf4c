"""The marks in a curve's head: whether the last steps improved it, and the change of the shown step.

A change is said only where it exceeds the noise of the steps before it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.recent_trend import LAST, RecentTrend, TrendVerdict, recent_trend
from rlpanel.number_text import DUST, number
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import newest_complete_step
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Number of steps before, and the number that is needed to know their noise.
STEPS, _MIN_STEPS = 10, 3


@dataclass(frozen=True)
class RecentChange:
    """A value and those before it.

    Attributes
    ----------
    value : float
    mean : float
        Mean of the last `STEPS` finite values before; NaN if there are fewer than three.
    noise : float
        Two standard deviations of a value from the mean of the others: ``2 s √(1 + 1/n)``.
    steps : int
        Number n of the values before.
    """

    value: float
    mean: float
    noise: float
    steps: int

    @property
    def text(self) -> str:
        """The change, such as ``▲ 0.14``; empty if it is within the noise, or the noise is unknown."""
        change = self.value - self.mean
        if not abs(change) > max(self.noise, DUST * max(abs(self.value), abs(self.mean))):
            return ""
        return f"{'▲' if change > 0 else '▼'} {number(abs(change))}"

    @property
    def tip(self) -> str:
        """The numbers behind the change."""
        return tr(
            "{value}, against {mean} ± {noise} in the {steps} steps before "
            "(mean, and 2 standard deviations of one step). Smaller changes are not shown.",
            value=number(self.value),
            mean=number(self.mean),
            noise=number(self.noise),
            steps=self.steps,
        )

    @property
    def html(self) -> str:
        """The change as HTML with the numbers as its tooltip; empty without a change."""
        return f'<span class="delta" title="{safe_text(self.tip)}">{self.text}</span>' if self.text else ""


def recent_change(values: np.ndarray, position: int) -> RecentChange:
    """Return the change at a position of a curve's values, shape (S,); -1 stands for no position."""
    value = float(values[position]) if position >= 0 else float("nan")
    before = values[: max(position, 0)]
    before = before[np.isfinite(before)][-STEPS:]
    if len(before) < _MIN_STEPS:
        return RecentChange(value, float("nan"), float("nan"), len(before))
    noise = 2 * float(before.std(ddof=1)) * float(np.sqrt(1 + 1 / len(before)))
    return RecentChange(value, float(before.mean()), noise, len(before))


#: Curves that are tested together on a page: the least z is corrected for so many.
_CURVES = 8
#: Trends of a run that are kept.
_KEPT = 64
#: Colour of a verdict, by the class of its mark.
_CLASSES: dict[TrendVerdict, str] = {"improved": "better", "worsened": "worse"}


def trend_of(context: Context, view: RunView, curve: str) -> RecentTrend | None:
    """Return the trend of a curve; None for a scalar of the trainer, and before the first complete step.

    It is computed once for each complete step, and not for each line that arrives.
    """
    snapshot = view.snapshot
    until = newest_complete_step(snapshot, time.time())
    if until is None or trainer_scalars.scalar_of(curve) is not None or not view.has(curve) or ":" in curve:
        return None
    counted = int(snapshot.steps.samples[snapshot.steps.values <= until].sum())
    key = (snapshot.split, snapshot.counts_rows, curve, until, counted)
    return cached_on(
        view if context.index is None else context.index,
        "recent trend",
        key,
        lambda: recent_trend(view, curve, LAST, until=until, tests=_CURVES),
        most=_KEPT,
    )


def trend_html(trend: RecentTrend | None) -> str:
    """Return the mark as HTML with the numbers as its tooltip; empty with too few steps."""
    if trend is None or trend.verdict == "too few steps":
        return ""
    sign = "~" if trend.verdict == "unclear" else "↗" if trend.change > 0 else "↘"
    color = _CLASSES.get(trend.verdict, "")
    label = safe_text(trend_tip(trend))
    return f'<span class="unit trend {color}" title="{label}" aria-label="{label}" role="img">{sign}</span>'


def trend_tip(trend: RecentTrend) -> str:
    """Return the verdict with its numbers as a sentence."""
    values = {
        "steps": f"{trend.steps[0]}–{trend.steps[1]}",
        "since": f"{trend.since[0]}–{trend.since[1]}",
        "change": f"{trend.change:+.3g}".replace("-", "−"),
        "error": number(trend.error),
        "z": number(abs(trend.z)),
    }
    verdict = {
        "improved": tr("Steps {steps} improved on steps {since}.", **values),
        "worsened": tr("Steps {steps} are worse than steps {since}.", **values),
        "rose": tr("Steps {steps} lie above steps {since}.", **values),
        "fell": tr("Steps {steps} lie below steps {since}.", **values),
        "unclear": tr("Steps {steps} do not clearly differ from steps {since}.", **values),
    }[trend.verdict]
    numbers = tr("Change {change} ± {error} (standard error), {z} errors.", **values)
    by = (
        tr("The error is clustered by prompt ({prompts}) and by step.", prompts=trend.prompts)
        if trend.prompts
        else tr("The error is that of the steps.")
    )
    return f"{verdict} {numbers} {by}"
