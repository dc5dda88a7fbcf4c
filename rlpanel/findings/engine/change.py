"""A change of a signal for the worse: where it holds, at which steps, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.findings.engine.places import Place
from rlpanel.findings.engine.signal import Signal


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
