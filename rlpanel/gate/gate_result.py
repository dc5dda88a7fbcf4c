"""The result of a gate: its numbers, their states and sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from rlpanel.gate.gate_numbers import GateNumber
from rlpanel.gate.spread_test import LAST, RunContrast, worsening_of
from rlpanel.number_text import DUST
from rlpanel.number_text import number as text

#: States of a number and of a gate.
WORSE, PASSED, CANNOT_TELL = "worse", "passed", "cannot tell"
#: With two or three baselines, a number with a corrected chance below this has not passed.
SUSPICIOUS = 0.2


@dataclass(frozen=True)
class WindowValues:
    """Means of one window.

    Attributes
    ----------
    first, last : int
        Steps of the new run.
    new : float
    baselines : tuple of float
        In the order of the baselines.
    low, high : float
        Limits of the spread for one more run, 95 % each; NaN with one baseline.
    """

    first: int
    last: int
    new: float
    baselines: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class GateSample:
    """A sample of the new run that shows a worsening.

    Attributes
    ----------
    uid : str
    row, step : int
    value : float
    baseline : float
        Mean over the baselines' samples with the same prompt; NaN if they have none.
    """

    uid: str
    row: int
    step: int
    value: float
    baseline: float


@dataclass(frozen=True)
class NumberResult:
    """Result of a gate for one number.

    Attributes
    ----------
    number : GateNumber
    state : {"worse", "passed", "cannot tell"}
    sentence : str
    contrast : RunContrast, optional
        The contrast with the smallest chance; None if nothing was tested.
    p : float
        Its chance, corrected for the number of tests.
    detectable, detectable_end : float
        Worsening that is found with a chance of 80 %: over all windows, and over the last ones; in the scale
        of the test.
    first_window : int
        First window outside of the spread, from 1; 0 if the number is not worse.
    first_step : int, optional
        Step of the new run at which the worsening begins.
    windows : tuple of WindowValues
    samples : tuple of GateSample
    """

    number: GateNumber
    state: str
    sentence: str
    contrast: RunContrast | None = None
    p: float = float("nan")
    detectable: float = float("nan")
    detectable_end: float = float("nan")
    first_window: int = 0
    first_step: int | None = None
    windows: tuple[WindowValues, ...] = ()
    samples: tuple[GateSample, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the values of a row of the table ``gate``."""
        number, contrast = self.number, self.contrast
        row: dict[str, Any] = {
            "number": number.name,
            "column": number.column or None,
            "state": self.state,
            "sentence": self.sentence,
            "worse_if": number.worse,
            "scale": number.scale,
            "first_window": self.first_window or None,
            "first_step": self.first_step,
            "windows": [_window(number, each) for each in self.windows],
            "samples": [
                {"uid": each.uid, "step": each.step, "value": each.value, "baseline": _known(each.baseline)}
                for each in self.samples
            ],
        }
        if contrast is not None:
            row |= {
                "over": contrast.name,
                "new": number.natural(contrast.new),
                "baselines": number.natural(contrast.baselines),
                "effect": contrast.effect,
                "error": contrast.error,
                "degrees": contrast.degrees,
                "p": self.p,
                "detectable": self.detectable,
                "detectable_end": self.detectable_end,
            }
        return row


def _window(number: GateNumber, each: WindowValues) -> dict[str, Any]:
    return {
        "first": each.first,
        "last": each.last,
        "new": _known(number.natural(each.new)),
        "baselines": [_known(number.natural(value)) for value in each.baselines],
        "low": _known(number.natural(each.low)),
        "high": _known(number.natural(each.high)),
    }


def _known(value: float) -> float | None:
    """Return a finite value, else None."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class GateResult:
    """The result of a gate.

    Attributes
    ----------
    run : str
        Name of the new run.
    against : tuple of str
        Names of the baselines.
    align : {"step", "samples", "tokens"}
    low, high : float
        The common range on the axis; NaN if there is none.
    steps : int
        Steps of the new run in it.
    windows : int
    tests : int
        Number of tests for which the chances are corrected.
    numbers : tuple of NumberResult
        Worse ones first, then those that cannot be told.
    notes : tuple of str
        What the comparison leaves out or depends on, one sentence each.
    """

    run: str
    against: tuple[str, ...]
    align: str
    low: float = float("nan")
    high: float = float("nan")
    steps: int = 0
    windows: int = 0
    tests: int = 0
    numbers: tuple[NumberResult, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)

    def count(self, state: str) -> int:
        """Return how many numbers have a state."""
        return sum(each.state == state for each in self.numbers)

    @property
    def state(self) -> str:
        """``worse`` if a number is, else ``cannot tell`` if one cannot be told, else ``passed``."""
        states = {each.state for each in self.numbers} or {CANNOT_TELL}
        return next(state for state in (WORSE, CANNOT_TELL, PASSED) if state in states)

    @property
    def sentence(self) -> str:
        """The verdict."""
        others = f"{len(self.against)} baseline{'s' * (len(self.against) != 1)}"
        if not self.numbers:
            return f"{self.run}: cannot tell, no number was compared with {others}."
        names = {
            state: ", ".join(each.number.name for each in self.numbers if each.state == state)
            for state in (WORSE, CANNOT_TELL, PASSED)
        }
        if self.state == WORSE:
            return f"{self.run} is worse than the spread of {others} allows in {names[WORSE]}."
        if self.state == CANNOT_TELL:
            return f"{self.run} against {others}: cannot tell for {names[CANNOT_TELL]}."
        return f"{self.run} is not worse than the spread of {others} allows in {names[PASSED]}."


def p_text(p: float) -> str:
    """Return a chance as text; below the rounding of a sum of chances, it is not written as 0.

    Examples
    --------
    >>> p_text(0.0314), p_text(0.0)
    ('p = 0.031', 'p < 1e-12')
    """
    return f"p = {p:.2g}" if p >= DUST else f"p < {DUST:g}"


def size_text(number: GateNumber, size: float) -> str:
    """Return a worsening as text: in the number's unit, or as a factor."""
    if number.scale == "log":
        return f"a factor of {text(number.natural_size(size))}"
    return text(size)


def found_sentence(
    result: NumberResult, baselines: int, tests: int, window: WindowValues | None, needed: int | None = None
) -> str:
    """Return the sentence of a number that was tested.

    Parameters
    ----------
    result : NumberResult
        All but its sentence.
    baselines, tests : int
    window : WindowValues, optional
        The first one outside of the spread.
    needed : int, optional
        Number of baselines with which an answer can be expected; None if it is not known.
    """
    number, contrast = result.number, result.contrast
    assert contrast is not None
    where = "over the end of the range" if contrast.name == LAST else "over the whole range"
    new, others = text(number.natural(contrast.new)), text(number.natural(contrast.baselines))
    least = size_text(number, result.detectable)
    tested = f"{p_text(result.p)} after Holm's correction for {tests} tests"
    name, many = number.name, f"{baselines} baseline{'s' * (baselines != 1)}"
    if result.state == WORSE:
        worsening = size_text(number, worsening_of(contrast.effect, number.worse))
        error = text(contrast.error)
        unit = " in the logarithm" if number.scale == "log" else ""
        begin = "" if result.first_step is None else f" It begins at step {result.first_step:,}."
        if window is not None:
            begin += f" The first window outside of the spread has steps {window.first:,} to {window.last:,}."
        word = "differs" if number.worse == "either" else "is worse"
        return (
            f"{name} {word}: {new} against {others} of {many} {where}, {worsening} with a standard error of "
            f"{error}{unit} ({tested}).{begin}"
        )
    if result.state == PASSED and contrast.degrees == 0:
        return (
            f"{name} is not worse beyond the noise within the runs: {new} against {others} {where}. "
            "One baseline shows no spread between seeds, so that a worsening cannot be proved with it."
        )
    if result.state == PASSED:
        return (
            f"{name} is not worse than the spread of {many} allows: {new} against {others} {where}. "
            f"A worsening of {least} over the whole range is found with a chance of 80 %."
        )
    if contrast.degrees == 0 and result.p < 0.05:
        return (
            f"{name} differs by more than the noise within the runs: {new} against {others} {where} "
            f"({tested}). Another seed may do the same: give two baselines or more with other seeds."
        )
    more = "Give more baselines, or fewer numbers with --on."
    if needed is not None:
        more = f"About {needed} baselines that differ as these do would tell; so may fewer numbers with --on."
    if contrast.degrees and result.p < SUSPICIOUS:
        worsening = size_text(number, worsening_of(contrast.effect, number.worse))
        return (
            f"{name} may be worse, by {worsening}: {new} against {others} {where}. The spread of {many} "
            f"cannot prove it ({tested}). {more}"
        )
    return (
        f"{name} cannot be told: only a worsening of {least} over the whole range is found with a chance of "
        f"80 %, which is more than {'a factor of 2' if number.scale == 'log' else 'the spread of samples'}. "
        f"{more}"
    )
