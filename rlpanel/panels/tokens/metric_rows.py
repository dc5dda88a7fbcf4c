"""Rows of the token heatmap: choice and order of metrics, colour scale, number format and notes.

The colours follow the scale of the run (`rlpanel.store.snapshot.token_scales`). A row also has the range
between percentiles of its own values, for a reader who wants to see the structure of one sample.
Values are sent to the browser as float32 (see `printable`) or computed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel import display_settings, schema
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.compute import token_values
from rlpanel.number_text import number
from rlpanel.panels.language.labels import tr
from rlpanel.store.snapshot.token_scales import AROUND, ROW

#: Estimators of KL. Only one of them has a row; ``log_ratio``, which is k1, always has one as well.
KL_ESTIMATORS = tuple(display_settings.KL_ESTIMATORS.values())

_FIRST = ("token_reward", "log_ratio")
_THEN = (
    "value", "token_advantage", "token_return", "ratio", "logprob", "ref_logprob", "engine_logprob", "prob",
    "ref_prob", "token_entropy", "surprisal",
)  # fmt: skip

#: Rows that the browser computes from the logged arrays with the same formulas (``formulas.js``).
DERIVED = frozenset(
    {"log_ratio", "kl_k3", "kl_k2", "kl_rllb", "surprisal", "logprob", "ref_logprob", "prob", "ref_prob"}
)

#: Rows whose high end is pale: a token that was nearly certain is not remarkable.
SURE = frozenset({"prob", "ref_prob"})

#: A diverging row is scaled without zero if no |x| is below this share of its largest |x|.
NEAR_ZERO = 0.25

#: Percentage of values at each end of a row that its colour range leaves out.
TAIL = 1.0

#: Share of the end's colour at most, as in ``color_scale.js``.
_STRONGEST = 0.86

#: Decimals of a value on screen. Differences too small for them are not coloured either.
DIGITS = 4
_MIN_SHOWN = 10.0**-DIGITS
_FLOAT32_DIGITS = 7


@dataclass(frozen=True)
class MetricRow:
    """One metric over the tokens of a sample, with its colour range.

    Attributes
    ----------
    name : str
        Name of the metric, whose declaration gives label, unit, scale and colour.
    values : ndarray of float, shape (n,)
        Values as the browser has them; ``n`` may differ from the number of tokens.
    around : float
        Neutral value of a diverging row: zero, or one for an importance ratio.
    lo, hi : float
        Range of the sample's own values. For a diverging row it is symmetric around ``around``, unless all
        values lie far away on one side: then it is the range of the values, drawn in that side's colours.
    flip : bool
        True for a sequential row whose pale end is ``hi``: log-probabilities and probabilities.
    least, most : float
        Smallest and largest finite value; NaN if no value is finite.
    center : float
        Typical value: ``around`` for a row whose colours diverge from it, else the median. Of the tokens
        that share a pixel, the one farthest from it is drawn.
    digits : int
        Decimals on screen: as many as float32 holds, at most 4.
    short : str
        Text shown instead of the range; empty if the row has a range.
    note : str
        Description of anomalies such as NaN or constant values; empty if none.
    label, tip : str
        Name and tooltip of an undeclared list that the trainer logs; empty for a metric.
    categories : tuple of (float, int, str)
        Value, number of its colour and name, of whole numbers or booleans with few different values.
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
    label: str = ""
    tip: str = ""
    categories: tuple[tuple[float, int, str], ...] = ()

    @property
    def scale(self) -> Literal["diverging", "sequential"]:
        """Colour scale."""
        if not self.label:
            return scale_of(column_info.get(self.name))
        return "diverging" if not self.categories and self.least < 0 < self.most else "sequential"


#: Most different values of a row of categories: so many colours the theme has.
MAX_CATEGORIES = 6


def sample_rows(
    sample: schema.Sample, tokens: int | None, kl_estimator: str = "kl_k3"
) -> tuple[list[MetricRow], list[str]]:
    """Return the rows of a sample, first those of metrics and then those of other lists, and notes."""
    rows, notes = build_rows(sample.arrays(), tokens, kl_estimator)
    logged = [logged_row(name, values, tokens) for name, values in sample.token_arrays.items()]
    names = {row.name for row in rows} | set(schema.BY_NAME)
    notes += [
        tr("{name} of the log has the name of a metric; tables call it logged_{name}.", name=row.label)
        for row in logged
        if row.label in names
    ]
    return rows + logged, notes


def build_rows(
    arrays: Mapping[str, np.ndarray], tokens: int | None, kl_estimator: str = "kl_k3"
) -> tuple[list[MetricRow], list[str]]:
    """Return the rows that can be computed from these arrays, and notes on metrics left out.

    Parameters
    ----------
    arrays : mapping of str to ndarray, each of shape (n,)
        Arrays by field name; lengths may differ.
    tokens : int or None
        Number of tokens, None if no tokens were logged.
    kl_estimator : str
        Estimator of the KL row, one of `KL_ESTIMATORS`.

    Returns
    -------
    rows : list of MetricRow
    notes : list of str
        Metrics left out because the lengths of their inputs differ.
    """
    computed = token_values(arrays)
    order = _order(kl_estimator)
    rows = [_row(name, computed[name], tokens) for name in order if name in computed and len(computed[name])]
    return rows, _left_out(arrays, computed, order)


def printable(values: np.ndarray, digits: int) -> np.ndarray:
    """Convert float64 to float32 values that print with the same digits.

    Logs with six decimals contain many rounding ties: -0.00365 is just below a tie in float64 and just
    above it in float32, so four digits would read -0.0036 and -0.0037. Such values are moved by one unit
    in the last place.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    digits : int
        Decimals.

    Returns
    -------
    ndarray of float32, shape (n,)
    """
    limit = np.finfo(np.float32).max
    bounded = np.where(np.isfinite(values), np.clip(values, -limit, limit), values)
    single = bounded.astype(np.float32)
    with np.errstate(invalid="ignore"):
        scaled = np.abs(bounded) * 10.0**digits
        near_tie = np.abs(scaled - np.floor(scaled) - 0.5) <= scaled * 2.0**-22 + 1e-9
    for i in np.flatnonzero(near_tie & (scaled < 10.0**_FLOAT32_DIGITS)):
        want = f"{values[i]:.{digits}f}"
        candidates = (single[i], np.nextafter(single[i], -np.inf), np.nextafter(single[i], np.inf))
        single[i] = next(
            (x for x in map(np.float32, candidates) if _prints(float(x), want, digits)), single[i]
        )
    return single


def _prints(value: float, want: str, digits: int) -> bool:
    """Return whether Python and JavaScript, which round ties differently, print ``value`` as ``want``."""
    return f"{value:.{digits}f}" == want and (abs(value) * 10.0**digits) % 1 != 0.5


def _order(kl_estimator: str) -> list[str]:
    """Return the names of the rows: the most used first, metrics that are not listed in this module last."""
    names = list(dict.fromkeys((*_FIRST, kl_estimator, *_THEN)))
    hidden = {*names, *KL_ESTIMATORS}
    return names + [
        m.name for m in column_info.visible_metrics() if m.level == "token" and m.name not in hidden
    ]


def _left_out(
    arrays: Mapping[str, np.ndarray], computed: Mapping[str, np.ndarray], order: Sequence[str]
) -> list[str]:
    """Return one note for each set of inputs whose lengths differ."""
    missing: dict[tuple[str, ...], list[str]] = {}
    for name in order:
        m = column_info.get(name)
        if name not in computed and m.available(arrays):
            missing.setdefault(m.needs, []).append(m.label)
    return [
        tr("{labels} not shown: ", labels=", ".join(labels))
        + " but ".join(
            tr("{count} {label} values", count=len(arrays[need]), label=schema.BY_NAME[need].label)
            for need in needs
        )
        for needs, labels in missing.items()
    ]


def logged_row(name: str, logged: np.ndarray, tokens: int | None) -> MetricRow:
    """Return the row of an undeclared list: categories if it holds few different whole numbers.

    Parameters
    ----------
    name : str
        The list's name in the log.
    logged : ndarray, shape (T,)
        Its values, of one sample or of several.
    tokens : int or None
        Number of tokens that it should have; None if there are no token texts.
    """
    whole = logged.dtype.kind in "bi"
    digits = 0 if whole else _digits(logged.astype(float))
    values = printable(logged.astype(float), digits)
    finite = values[np.isfinite(values)].astype(np.float64)
    signed = bool(len(finite)) and finite.min() < 0 < finite.max()
    lo, hi = _diverging(finite, 0.0) if signed else _sequential(finite)
    short, note = _oddities(values, finite, tokens)
    different, counts = np.unique(finite, return_counts=True)
    few = whole and 0 < len(different) <= MAX_CATEGORIES
    common = float(different[counts.argmax()]) if few else np.nan
    return MetricRow(
        name=ROW + name,
        values=values,
        around=0.0,
        lo=lo,
        hi=hi,
        flip=not signed and abs(lo) > abs(hi),
        least=float(finite.min()) if len(finite) else np.nan,
        most=float(finite.max()) if len(finite) else np.nan,
        center=common if few else 0.0 if signed or not len(finite) else float(np.median(finite)),
        digits=digits,
        short=short,
        note=note,
        label=name if name.strip() else f'"{name}"',
        tip=tr("A list that the trainer logs under this name, one value per token."),
        categories=_categories(different, boolean=logged.dtype.kind == "b") if few else (),
    )


def _categories(values: np.ndarray, *, boolean: bool) -> tuple[tuple[float, int, str], ...]:
    """Return value, colour and name of each category; small numbers have one colour in all samples."""
    fixed = values.min() >= 0 and values.max() < MAX_CATEGORIES
    names = {0.0: "false", 1.0: "true"} if boolean else {}
    return tuple(
        (value, int(value) if fixed else at, names.get(value, f"{value:.0f}"))
        for at, value in enumerate(values.tolist())
    )


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
        flip=not diverging and (name in SURE or abs(lo) > abs(hi)),
        least=float(finite.min()) if len(finite) else np.nan,
        most=float(finite.max()) if len(finite) else np.nan,
        center=around if not len(finite) or (diverging and lo < around < hi) else float(np.median(finite)),
        digits=digits,
        short=short,
        note=note,
    )


def _inner(finite: np.ndarray, percent: float, method: Literal["lower", "higher"], empty: float) -> float:
    """Return a percentile without interpolation: the neighbouring value on the inner side.

    Below 100 tokens an interpolated percentile is close to the extreme itself. The inner neighbour excludes
    that one token, so a short response with one outlier keeps its colours.
    """
    return float(np.percentile(finite, percent, method=method)) if len(finite) else empty


def scale_of(metric: column_info.Metric) -> Literal["diverging", "sequential"]:
    """Return the colour scale of the metric's row: diverging if `AROUND` gives it a neutral value."""
    return "diverging" if metric.name in AROUND else metric.scale


def scale_color(name: str, value: float, ends: tuple[float, float]) -> str:
    """Return the colour of a value on a scale of `token_scales` as CSS, by the formula of ``color_scale.js``.

    It is mixed in OKLab from the surface and at most 86 % of the end's colour, in the theme of the page.
    """
    low, high = ends
    share = float(np.clip((value - low) / (high - low), 0.0, 1.0))
    metric = column_info.get(name)
    if scale_of(metric) == "diverging":
        share, end = abs(2 * share - 1), "policy" if share >= 0.5 else "reference"
    else:
        share = 1 - share if name in SURE or abs(low) > abs(high) else share
        end = column_info.describe(name).color
    return f"color-mix(in oklab, var(--rl-{end}) {_STRONGEST * share:.2%}, var(--rl-surface))"


def _diverging(finite: np.ndarray, around: float) -> tuple[float, float]:
    """Return a colour range symmetric around the neutral value, unless all values lie far on one side.

    If the percentiles are zero, the bound is the largest |x|: a single score at the last token.
    """
    off = finite - around
    low = _inner(off, TAIL, "higher", 0.0)
    high = _inner(off, 100.0 - TAIL, "lower", 0.0)
    bound = max(abs(low), abs(high))
    if _one_sided(off, low, high) and high - low >= _MIN_SHOWN:
        return around + low, around + high
    if bound < _MIN_SHOWN and len(off):
        bound = float(np.abs(off).max())
    bound = max(bound, _MIN_SHOWN)
    return around - bound, around + bound


def _one_sided(finite: np.ndarray, low: float, high: float) -> bool:
    """Return whether all values except the tails are on one side of zero and far from it."""
    near, far = sorted((abs(low), abs(high)))
    return low * high > 0 and near > NEAR_ZERO * far and bool(np.mean((finite > 0) != (low > 0)) < TAIL / 100)


def _sequential(finite: np.ndarray) -> tuple[float, float]:
    low = _inner(finite, TAIL, "higher", 0.0)
    high = _inner(finite, 100.0 - TAIL, "lower", 1.0)
    if high - low < _MIN_SHOWN and len(finite):
        low, high = float(finite.min()), float(finite.max())
    return low, max(high, low + _MIN_SHOWN)


def _digits(values: np.ndarray) -> int:
    """Return the number of decimals that float32 holds at the row's magnitude."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    before = len(str(int(largest))) if largest < 10.0**_FLOAT32_DIGITS else _FLOAT32_DIGITS
    return max(0, min(DIGITS, _FLOAT32_DIGITS - before))


def _oddities(values: np.ndarray, finite: np.ndarray, tokens: int | None) -> tuple[str, str]:
    """Return the text shown instead of the range, and the row's note."""
    short = note = ""
    if not len(finite):
        short, note = tr("no finite value"), tr("no finite value")
    elif not finite.any():
        short, note = tr("all zero"), tr("all zero: not informative")
    elif len(finite) > 1 and (finite == finite[0]).all():
        same = number(float(finite[0]))
        short = tr("all {same}", same=same)
        note = tr("the same for all tokens ({same})", same=same)
    elif np.abs(finite).max() < _MIN_SHOWN / 2:
        most = number(float(np.abs(finite).max()))
        short, note = "≈ 0", tr("all values within {max} of zero", max=most)
    counts = {
        "NaN": int(np.isnan(values).sum()),
        "+inf": int(np.isposinf(values).sum()),
        "-inf": int(np.isneginf(values).sum()),
    }
    notes = [note, *(f"{n} {kind}" for kind, n in counts.items() if n)]
    if tokens is not None and len(values) != tokens:
        notes.append(tr("{values} values for {tokens} tokens", values=len(values), tokens=tokens))
    return short, "; ".join(filter(None, notes))
