"""A change of a signal for the worse: where it holds, at which steps, and how large it is.

Words for numbers, steps and places in the sentences of findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel import number_text
from rlpanel.findings.engine.places import Place
from rlpanel.findings.engine.signal import Signal, stretches


@dataclass(frozen=True)
class Change:
    """A change of a signal for the worse.

    Attributes
    ----------
    signal : Signal
    place : Place
        Where it holds.
    mask : ndarray of bool, shape (S,)
        The affected steps.
    ongoing : bool
        True if the newest complete steps are affected.
    before, after : float
        Levels; ``before`` is NaN if the signal was never better.
    values : ndarray of float, shape (S,)
        The signal's mean at each step, in this place.
    sign : int
        1 if it rose, -1 if it fell.
    z : float
        Difference in standard errors.
    sudden : bool
        True if it is a cliff, not a slide.
    base : tuple of int
        First position of the window before, and the one after its last.
    """

    signal: Signal
    place: Place
    mask: np.ndarray
    ongoing: bool
    before: float
    after: float
    values: np.ndarray
    sign: int = 1
    z: float = 0.0
    sudden: bool = True
    base: tuple[int, int] = (0, 0)

    @property
    def onset(self) -> int:
        """Position of the first affected step."""
        return int(self.mask.argmax())

    @property
    def last(self) -> int:
        """Position of the last affected step."""
        return len(self.mask) - 1 - int(self.mask[::-1].argmax())

    @cached_property
    def worst(self) -> int:
        """Position of the affected step with the most extreme value."""
        values = np.where(self.mask & np.isfinite(self.values), self.sign * self.values, -np.inf)
        return int(values.argmax())


def percent(share: float) -> str:
    """Format a share, such as ``3.4%`` or ``67%``."""
    if 0 < share < 0.001:
        return "less than 0.1%"
    return f"{share:.1%}" if share < 0.0995 and share > 0 else f"{share:.0%}"


def number(value: float) -> str:
    """Format a number as the page does, but with the minus sign that every terminal can show."""
    return number_text.number(value).replace("−", "-")


def standard_errors(z: float) -> str:
    """Format a difference in standard errors; beyond 100 its number means nothing."""
    return f"{z:.0f} standard errors" if z <= 100 else "more than 100 standard errors"


def since(steps: np.ndarray, change: Change) -> str:
    """Return the steps of a change as the begin of a sentence, such as ``From step 46 on``."""
    first, last = steps[change.onset], steps[change.last]
    if change.ongoing and first != last:
        return f"From step {first:,} on"
    return f"At step {first:,}" if first == last else f"In steps {first:,}–{last:,}"


def at_place(change: Change) -> str:
    """Return the place of a change, such as `` on rank 1``; empty for the whole run."""
    if not change.place:
        return ""
    return f" on {change.place.text}" if change.place.rank is not None else f" with {change.place.text}"


def compared(before: float, text: str) -> str:
    """Return the level before a change in brackets; empty if there was none."""
    return f" ({text} before)" if np.isfinite(before) else ""


def span(steps: np.ndarray, mask: np.ndarray, most: int = 4) -> str:
    """Format steps as text, such as ``step 3`` or ``steps 3–5 and 9``; consecutive steps form a range.

    Parameters
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    mask : ndarray of bool, shape (S,)
        Selects the steps to format.
    most : int
        Maximum number of ranges; the rest is abbreviated to "and N more".
    """
    bounds = stretches(mask)
    ranges = [f"{steps[a]:,}" if b - a == 1 else f"{steps[a]:,}–{steps[b - 1]:,}" for a, b in bounds.tolist()]
    noun = "step" if mask.sum() == 1 else "steps"
    if len(ranges) > most:
        left = int(mask.sum()) - int(mask[: bounds[most - 1, 1]].sum())
        return f"{noun} {', '.join(ranges[:most])} and {left:,} more"
    text = f"{', '.join(ranges[:-1])} and {ranges[-1]}" if len(ranges) > 1 else "".join(ranges)
    return f"{noun} {text}"
