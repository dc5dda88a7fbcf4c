"""Token metrics as rows to draw: which, in what order, on which scale, and what is odd about them.

A row's colours run over its own robust range, so that one outlier does not flatten the rest and no row
borrows another's scale. Values go to the browser as float32, see `printable`, or are computed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.compute import token_values

#: Estimators of KL, of which one row is shown; ``log_ratio`` is k1 and has a row in any case.
KL_ESTIMATORS = ("kl_k3", "kl_k2", "log_ratio", "kl_rllb")

_FIRST = ("token_reward", "log_ratio")
_THEN = (
    "value", "token_advantage", "token_return", "ratio", "logprob", "ref_logprob", "prob", "ref_prob",
    "token_entropy", "surprisal",
)  # fmt: skip

#: Rows that the browser computes from the logged arrays by the same formulas (``tokens_formulas.js``).
DERIVED = frozenset(
    {"log_ratio", "kl_k3", "kl_k2", "kl_rllb", "surprisal", "logprob", "ref_logprob", "prob", "ref_prob"}
)

#: A diverging row with nothing between zero and this share of its largest |x| is scaled without zero.
NEAR_ZERO = 0.25

#: What is unremarkable, where that is another number than zero: these rows are coloured around it.
AROUND: Mapping[str, float] = MappingProxyType({"ratio": 1.0})

#: Percent at each end of a row that its scale leaves out.
TAIL = 1.0

#: Digits after the point. What they cannot show is given no colour either.
DIGITS = 4
_LEAST = 10.0**-DIGITS
_FLOAT32_DIGITS = 7


@dataclass(frozen=True)
class MetricRow:
    """One metric over the tokens of a sample.

    Attributes
    ----------
    name : str
        The metric's, which declares label, unit, scale and colour.
    values : ndarray of float, shape (n,)
        The numbers that the browser has; ``n`` may differ from the number of tokens.
    around : float
        What a diverging row is coloured around: zero, or one for an importance ratio.
    lo, hi : float
        Range of the colours; symmetric around ``around`` for a diverging row, unless it stays far from it
        on one side: then the range of its values, which shows in that side's colours.
    flip : bool
        A sequential row whose plain end is ``hi``, the end nearer zero (log-probabilities).
    least, most : float
        Smallest and largest finite value, NaN if there is none.
    center : float
        What is unremarkable: ``around`` for a row that is coloured around it, else the median. Where
        tokens share a pixel, the one farthest from it is drawn.
    digits : int
        After the point, as many as float32 carries, at most 4.
    short : str
        Stands in the place of the range where the row has none.
    note : str
        What is odd about the row, in words; empty if nothing.
    """

    name: str
    values: np.ndarray
    around: float
    lo: float
    hi: float
    flip: bool
    least: float
    most: float
    center: float
    digits: int
    short: str
    note: str


def build_rows(
    arrays: Mapping[str, np.ndarray], tokens: int | None, kl_estimator: str = "kl_k3"
) -> tuple[list[MetricRow], list[str]]:
    """The rows that these arrays allow, and notes on those that they do not.

    Parameters
    ----------
    arrays : mapping of str to ndarray, each of shape (n,)
        By field name; lengths may differ.
    tokens : int or None
        Number of tokens, None if no tokens were logged.
    kl_estimator : str
        The KL row to show, one of `KL_ESTIMATORS`.

    Returns
    -------
    rows : list of MetricRow
    notes : list of str
        Metrics left out because their inputs differ in length.
    """
    found = token_values(arrays)
    order = _order(kl_estimator)
    rows = [_row(name, found[name], tokens) for name in order if name in found and len(found[name])]
    return rows, _left_out(arrays, found, order)


def printable(values: np.ndarray, digits: int) -> np.ndarray:
    """float32 that prints the same digits as the float64 it came from.

    Six-digit logs are full of ties: -0.00365 is just below one in float64 and just above it in float32,
    so four digits would read -0.0036 and -0.0037. Such values move by one unit in the last place.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    digits : int
        After the point.

    Returns
    -------
    ndarray of float32, shape (n,)
    """
    limit = np.finfo(np.float32).max
    inside = np.where(np.isfinite(values), np.clip(values, -limit, limit), values)
    single = inside.astype(np.float32)
    with np.errstate(invalid="ignore"):
        scaled = np.abs(inside) * 10.0**digits
        near = np.abs(scaled - np.floor(scaled) - 0.5) <= scaled * 2.0**-22 + 1e-9
    for i in np.flatnonzero(near & (scaled < 10.0**_FLOAT32_DIGITS)):
        want = f"{values[i]:.{digits}f}"
        around = (single[i], np.nextafter(single[i], -np.inf), np.nextafter(single[i], np.inf))
        single[i] = next((x for x in map(np.float32, around) if _prints(float(x), want, digits)), single[i])
    return single


def _prints(value: float, want: str, digits: int) -> bool:
    """Whether ``value`` reads ``want`` in Python and JavaScript, which round exact ties differently."""
    return f"{value:.{digits}f}" == want and (abs(value) * 10.0**digits) % 1 != 0.5


def _order(kl_estimator: str) -> list[str]:
    """Names of the rows, from what is looked at first to metrics this file has not heard of."""
    names = list(dict.fromkeys((*_FIRST, kl_estimator, *_THEN)))
    hidden = {*names, *KL_ESTIMATORS}
    return names + [m.name for m in column_info.shown() if m.level == "token" and m.name not in hidden]


def _left_out(
    arrays: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], order: Sequence[str]
) -> list[str]:
    """One note for each set of inputs that differ in length."""
    missing: dict[tuple[str, ...], list[str]] = {}
    for name in order:
        m = column_info.get(name)
        if name not in found and m.available(arrays):
            missing.setdefault(m.needs, []).append(m.label)
    return [
        f"{', '.join(labels)} not shown: "
        + " but ".join(f"{len(arrays[need])} {schema.BY_NAME[need].label} values" for need in needs)
        for needs, labels in missing.items()
    ]


def _row(name: str, values: np.ndarray, tokens: int | None) -> MetricRow:
    m = column_info.get(name)
    digits = DIGITS if name in DERIVED else _digits(values)
    values = np.asarray(values, np.float64) if name in DERIVED else printable(values, digits)
    finite = values[np.isfinite(values)].astype(np.float64)
    around = AROUND.get(name, 0.0)
    diverging = scale_of(m) == "diverging"
    lo, hi = _diverging(finite, around) if diverging else _sequential(finite)
    short, note = _oddities(values, finite, tokens)
    return MetricRow(
        name=name,
        values=values,
        around=around,
        lo=lo,
        hi=hi,
        flip=not diverging and abs(lo) > abs(hi),
        least=float(finite.min()) if len(finite) else np.nan,
        most=float(finite.max()) if len(finite) else np.nan,
        center=around if not len(finite) or (diverging and lo < around < hi) else float(np.median(finite)),
        digits=digits,
        short=short,
        note=note,
    )


def _inner(finite: np.ndarray, percent: float, method: Literal["lower", "higher"], empty: float) -> float:
    """A percentile that is a value of the data, the inner neighbour of the exact place.

    Below 100 tokens an interpolated percentile sits next to the extreme itself; the inner neighbour
    sets that one token aside, so a short response with one outlier keeps its colours.
    """
    return float(np.percentile(finite, percent, method=method)) if len(finite) else empty


def scale_of(metric: column_info.Metric) -> Literal["diverging", "sequential"]:
    """How the metric is coloured token by token; what has a plain value of its own runs both ways from it."""
    return "diverging" if metric.name in AROUND else metric.scale


def _diverging(finite: np.ndarray, around: float) -> tuple[float, float]:
    """Symmetric around the plain value, unless all is far on one side of it.

    The bound is the largest |x| where the rest is zero, as with a score at the end.
    """
    off = finite - around
    low = _inner(off, TAIL, "higher", 0.0)
    high = _inner(off, 100.0 - TAIL, "lower", 0.0)
    bound = max(abs(low), abs(high))
    if _one_sided(off, low, high) and high - low >= _LEAST:
        return around + low, around + high
    if bound < _LEAST and len(off):
        bound = float(np.abs(off).max())
    bound = max(bound, _LEAST)
    return around - bound, around + bound


def _one_sided(finite: np.ndarray, low: float, high: float) -> bool:
    """Whether all but the tails stay on one side of zero and far from it."""
    near, far = sorted((abs(low), abs(high)))
    return low * high > 0 and near > NEAR_ZERO * far and bool(np.mean((finite > 0) != (low > 0)) < TAIL / 100)


def _sequential(finite: np.ndarray) -> tuple[float, float]:
    low = _inner(finite, TAIL, "higher", 0.0)
    high = _inner(finite, 100.0 - TAIL, "lower", 1.0)
    if high - low < _LEAST and len(finite):
        low, high = float(finite.min()), float(finite.max())
    return low, max(high, low + _LEAST)


def _digits(values: np.ndarray) -> int:
    """Digits after the point that float32 can carry at the row's magnitude."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    before = len(str(int(largest))) if largest < 10.0**_FLOAT32_DIGITS else _FLOAT32_DIGITS
    return max(0, min(DIGITS, _FLOAT32_DIGITS - before))


def _oddities(values: np.ndarray, finite: np.ndarray, tokens: int | None) -> tuple[str, str]:
    """What stands in the range's place, and the whole note."""
    short = note = ""
    if not len(finite):
        short, note = "no number", "no finite value"
    elif not finite.any():
        short, note = "all zero", "all zero: not informative"
    elif len(finite) > 1 and (finite == finite[0]).all():
        short, note = f"all {finite[0]:.4g}", f"the same for all tokens ({finite[0]:.6g})"
    elif np.abs(finite).max() < _LEAST / 2:
        short, note = "≈ 0", f"nowhere further than {np.abs(finite).max():.1g} from zero"
    counts = {
        "NaN": int(np.isnan(values).sum()),
        "+inf": int(np.isposinf(values).sum()),
        "-inf": int(np.isneginf(values).sum()),
    }
    notes = [note, *(f"{n} {what}" for what, n in counts.items() if n)]
    if tokens is not None and len(values) != tokens:
        notes.append(f"{len(values)} values for {tokens} tokens")
    return short, "; ".join(filter(None, notes))
