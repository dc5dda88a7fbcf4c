"""Change of a step's value against the steps before it, said only where it exceeds their noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.number_text import DUST, number
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.theme import safe_text

#: Number of steps before, and the number that is needed to know their noise.
STEPS, _LEAST_STEPS = 10, 3


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
    if len(before) < _LEAST_STEPS:
        return RecentChange(value, float("nan"), float("nan"), len(before))
    noise = 2 * float(before.std(ddof=1)) * float(np.sqrt(1 + 1 / len(before)))
    return RecentChange(value, float(before.mean()), noise, len(before))
