"""Ranges of values: of a curve's axis, and of a filter (`rlpanel.store.query.filter_syntax`).

An axis follows the line, and neither a wide band nor a few spikes flatten it. It never spans less than what
matters: differences in the last digits of floats would look like a rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.panels.plots.series import Points

#: Shares of the points below and above which a value may be a spike.
_LOW, _HIGH = 0.02, 0.98
#: A value is a spike if its distance from these quantiles is more than this many times their distance.
_SPIKE = 1.5
#: Fewer points than this have no spikes: with few values no quantile tells them from the rest.
_ENOUGH = 20
#: An axis spans at least this share of its largest value, so that ticks of four digits differ.
_MIN_SHARE = 0.01
#: Unit → the least span of an axis in that unit: what is below it is rounding, not learning.
MIN_SPAN = {"nats": 1e-4, "tokens": 1.0, "characters": 1.0, "share": 0.01}
#: The least span of a logarithmic axis, in decades.
_MIN_DECADES = 0.3
#: Room for the band on either side of the line, as a share of the line's own range.
_BAND_SHARE = 0.35
#: A band that needs no more room than this share on a side has it: what is cut looks narrower than it is.
_WHOLE_BAND_SHARE = 0.75
#: Share of the points at which each bound of the band may lie outside its room.
_BAND_LOW = 0.1
_PADDING = 0.06
#: Share of the points at which a band must reach both ends of the axis to fill the plot.
_FULL = 0.9


@dataclass(frozen=True)
class ValueRange:
    """Values from ``low`` to ``high``, both included; an infinite bound means that there is none."""

    column: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """The range as a filter expression: ``0.3 <= `reward` <= 0.5``."""
        low = f"{self.low:.12g} <= " if np.isfinite(self.low) else ""
        high = f" <= {self.high:.12g}" if np.isfinite(self.high) else ""
        return f"{low}`{self.column}`{high}"


def widen(low: float, high: float, least: float = 0.0) -> tuple[float, float]:
    """Return a range of values, made wider around its middle if it is below the least span.

    The least span is ``least``, and never less than 1 % of the largest value.
    """
    missing = max(least, _MIN_SHARE * max(abs(low), abs(high))) - (high - low)
    return (low - missing / 2, high + missing / 2) if missing > 0 else (low, high)


def fit_axis(
    lines: Sequence[Points], *, log: bool = False, least: float = 0.0, whole_band: bool = False
) -> tuple[float, float] | None:
    """Return start and end of the value axis for all lines of a plot; None if no value can be drawn.

    Parameters
    ----------
    lines : sequence of dict of str to ndarray, shape (P,)
        ``y``, and the bounds ``lo`` and ``hi`` of the band if the line has one, as
        `rlpanel.panels.plots.series.curve` returns them.
    log : bool
        Whether the axis is logarithmic; values of 0 and below are left out.
    least : float
        The least span of a linear axis, as in `MIN_SPAN`.
    whole_band : bool
        Whether nearly all of the band must be in view: an interval of uncertainty that is cut looks smaller.

    Returns
    -------
    tuple of float, or None
        A line that is constant gets the room of its band, or of its own size.
    """
    with np.errstate(all="ignore"):
        scaled: list[Points] = [
            {name: _scaled(line[name], log) for name in ("y", "lo", "hi") if name in line} for line in lines
        ]
    ranges = [_line_range(line["y"]) for line in scaled if len(line["y"])]
    if not ranges:
        return None
    low, high = min(start for start, _ in ranges), max(end for _, end in ranges)
    low, high = _with_band(low, high, scaled, whole=whole_band)
    if log and low < high < low + _MIN_DECADES:
        low, high = (low + high - _MIN_DECADES) / 2, (low + high + _MIN_DECADES) / 2
    elif not log and high > low:
        low, high = widen(low, high, least)
    if high <= low:
        half = abs(low) / 2 or 1.0
        low, high = low - half, high + half
    padding = _PADDING * (high - low)
    start, end = low - padding, high + padding
    return (10.0**start, 10.0**end) if log else (start, end)


def fills_axis(line: Points, start: float, end: float) -> bool:
    """Return whether a band reaches both ends of the value axis at nearly all points."""
    reaches = (line["lo"] <= start) & (line["hi"] >= end)
    return len(reaches) > 0 and float(reaches.mean()) > _FULL


def _scaled(values: np.ndarray, log: bool) -> np.ndarray:
    """Return the finite values as the axis places them."""
    values = np.log10(np.where(values > 0, values, np.nan)) if log else values
    return values[np.isfinite(values)]


def _with_band(low: float, high: float, lines: Sequence[Points], *, whole: bool) -> tuple[float, float]:
    """Return a range with room for the band; with all of it if lines are constant or ``whole`` is set."""
    bands = [line for line in lines if len(line.get("lo", ())) and len(line.get("hi", ()))]
    if not bands:
        return low, high
    share = _LOW if whole else _BAND_LOW
    least = min(low, *(float(np.quantile(line["lo"], share)) for line in bands))
    most = max(high, *(float(np.quantile(line["hi"], 1 - share)) for line in bands))
    needed = max(low - least, most - high)
    if whole or needed <= _WHOLE_BAND_SHARE * (high - low) or high <= low:
        return least, most
    room = _BAND_SHARE * (high - low)
    return max(least, low - room), min(most, high + room)


def _line_range(y: np.ndarray) -> tuple[float, float]:
    """Return the range of a line's values without its spikes."""
    least, most = float(y.min()), float(y.max())
    if len(y) < _ENOUGH:
        return least, most
    low, high = (float(value) for value in np.quantile(y, (_LOW, _HIGH)))
    reach = _SPIKE * (high - low)
    if not reach:
        return least, most
    return max(least, low - reach), min(most, high + reach)
