"""The colour scale of each token metric, from the statistics that a run keeps of its sample columns.

One scale serves all samples of a run, so that equal values have equal colours. Nothing is read for it: each
metric's typical size at a step follows from the step's statistics (mean, minimum, maximum) of columns
that rows have anyway, such as the mean of KL k2, which is half the mean square of the log-ratio.

The scale follows from the mean of these sizes over the first n steps, the largest of all n. It can therefore
only grow while steps are appended, and one late step that explodes does not make all others pale. It is
rounded to 1, 2, 3 or 5 times a power of ten, so that it grows rarely. Rewards, values and advantages do not
explode, and whole responses have one value: their scale is the largest of all steps, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.metric import Metric
from rlpanel.metrics.logged_arrays import array_names
from rlpanel.schema import TOKEN_MAX, TOKEN_MIN
from rlpanel.store.snapshot.snapshot import Snapshot

#: Lower and upper end of a scale.
Scale = tuple[float, float]

#: Neutral value of metrics whose colours diverge from a value other than zero.
AROUND: Mapping[str, float] = MappingProxyType({"ratio": 1.0})
#: Before the name of an undeclared list, in the names of rows and scales.
ROW = "logged:"
#: Scales that follow from what the metric is.
_FIXED: Mapping[str, Scale] = MappingProxyType({"prob": (0.0, 1.0), "ref_prob": (0.0, 1.0)})

#: Smallest and largest end of a scale. Differences below 0.1 nat, or 5 % between engines and for ratios, are
#: noise. A log-ratio of 5 nats is a factor of 148: what lies beyond it is bad in any run.
_NATS, _ENGINE, _RATIO, _SURPRISE, _ANY = (0.1, 5.0), (0.05, 5.0), (0.05, 1.0), (0.1, 20.0), (1e-4, 1e300)
_TICKS = (1.0, 2.0, 3.0, 5.0, 10.0)

_Statistics = Callable[[str, str], np.ndarray]


@dataclass(frozen=True)
class _Rule:
    """Declares how a metric's scale follows from statistics of columns.

    Attributes
    ----------
    columns : tuple of str
        Columns that give a size; of several, the largest counts, so that these metrics share a scale.
    size : callable
        Returns the end of the scale at each step, from the statistics and a column.
    bounds : tuple of float
        Smallest and largest end.
    text : str
        The rule in words, for the legend.
    """

    columns: tuple[str, ...]
    size: Callable[[_Statistics, str], np.ndarray]
    bounds: tuple[float, float]
    text: str


def _from_k2(statistics: _Statistics, column: str) -> np.ndarray:
    """Return four times the root mean square of a difference, from the mean of half its square."""
    return 4.0 * np.sqrt(2.0 * statistics(column, "mean"))


def _from_pooled_k2(statistics: _Statistics, column: str) -> np.ndarray:
    """Return `_from_k2` of a metric of which rows have sum and number of tokens."""
    mean = statistics(f"{column}_sum", "mean") / statistics(f"{column}_count", "mean")
    return 4.0 * np.sqrt(2.0 * np.maximum(mean, 0.0))


def _from_mean(statistics: _Statistics, column: str) -> np.ndarray:
    """Return ten times the mean: a few tokens have most of a KL."""
    return 10.0 * np.abs(statistics(column, "mean"))


def _from_surprise(statistics: _Statistics, column: str) -> np.ndarray:
    """Return 5 √(mean · 1 nat), close to the 99th percentile of surprisal and entropy."""
    return 5.0 * np.sqrt(np.abs(statistics(column, "mean")))


def _from_extremes(statistics: _Statistics, column: str) -> np.ndarray:
    """Return the largest distance of a sample from zero."""
    return np.maximum(np.abs(statistics(column, "min")), np.abs(statistics(column, "max")))


_ROOT_MEAN_SQUARE = "4 × the root mean square of a step's tokens"
_TEN_MEANS = "10 × the mean of a step"
_SURPRISAL = _Rule(
    ("surprisal_mean", "ref_logprob_mean", "engine_logprob_mean"),
    _from_surprise,
    _SURPRISE,
    "5 √(mean surprisal of a step · 1 nat), the largest of policy, reference and engine",
)
_OUTCOME = _Rule(
    ("value_mean", "token_return_mean"), _from_extremes, _ANY, "the largest mean value or return of a sample"
)
_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "log_ratio": _Rule(("kl_k2_mean",), _from_k2, _NATS, _ROOT_MEAN_SQUARE),
        "kl_k3": _Rule(("kl_k3_mean",), _from_mean, _NATS, _TEN_MEANS),
        "kl_k2": _Rule(("kl_k2_mean",), _from_mean, _NATS, _TEN_MEANS),
        "kl_rllb": _Rule(("kl_rllb_mean",), _from_mean, _NATS, _TEN_MEANS),
        "ratio": _Rule(("_update_k2",), _from_pooled_k2, _RATIO, _ROOT_MEAN_SQUARE),
        "engine_log_ratio": _Rule(("_engine_k3",), _from_pooled_k2, _ENGINE, _ROOT_MEAN_SQUARE),
        "surprisal": _SURPRISAL,
        "logprob": _SURPRISAL,
        "ref_logprob": _SURPRISAL,
        "engine_logprob": _SURPRISAL,
        "token_entropy": _Rule(
            ("token_entropy_mean",), _from_surprise, _SURPRISE, "5 √(mean of a step · 1 nat)"
        ),
        "value": _OUTCOME,
        "token_return": _OUTCOME,
        "token_reward": _Rule(("token_reward_sum",), _from_extremes, _ANY, "the largest sum of a sample"),
    }
)


def scale_rule(name: str) -> str:
    """Return how the scale of a token metric follows from the run, in words; empty if it has none."""
    if name in _FIXED:
        return ""
    rule = _RULES.get(name) or _usual_rule(column_info.get(name))
    if not rule.columns:
        return ""
    low, high = rule.bounds
    return f"{rule.text}" + (f", at least {low:g} and at most {high:g}" if rule.bounds != _ANY else "")


def token_scales(snapshot: Snapshot, step: int | None = None) -> dict[str, Scale]:
    """Return the colour scale of each token metric of a run, or of one of its steps.

    Parameters
    ----------
    snapshot : Snapshot
    step : int, optional
        By default all steps count, without the newest one, whose samples may still arrive.

    Returns
    -------
    dict of str to (float, float)
        Ends by metric name: symmetric around the neutral value for differences, from 0 for others. A metric
        of which the run keeps no statistics is absent.
    """
    count = len(snapshot.steps.values)
    if not count:
        return {}
    position = None if step is None else snapshot.steps.position(step)
    if position is not None and position < 0:
        return {}
    some = slice(0, max(1, count - 1)) if position is None else slice(position, position + 1)

    def statistics(column: str, name: str) -> np.ndarray:
        return snapshot.steps.statistic(column, name)[some]

    scales: dict[str, Scale] = dict(_FIXED)
    for metric in column_info.visible_metrics():
        logged = any(column in snapshot.steps.columns for column in metric.columns.values())
        if metric.level != "token" or metric.name in scales or not logged:
            continue
        rule = _RULES.get(metric.name) or _usual_rule(metric)
        sizes = [size for column in rule.columns if (size := _sizes(rule, statistics, column)) is not None]
        if sizes:
            scales[metric.name] = _ends(metric, _rounded(max(sizes), rule.bounds), statistics)
    for name in array_names(snapshot.steps.columns):
        ends = _array_ends(statistics(TOKEN_MIN + name, "mean"), statistics(TOKEN_MAX + name, "mean"))
        scales |= {ROW + name: ends} if ends is not None else {}
    return scales


#: The rule of `_array_ends` in words.
ARRAY_RULE = "the mean of the samples' smallest and largest values, rounded up"


def _array_ends(least: np.ndarray, most: np.ndarray) -> Scale | None:
    """Return the ends of the scale of an undeclared list, from step means of its extremes; None if none.

    They are symmetric if both signs occur, and else begin or end at zero.
    """
    known = np.isfinite(least) & np.isfinite(most)
    if not known.any():
        return None
    count = np.arange(1, known.sum() + 1)
    low, high = (np.cumsum(least[known]) / count).min(), (np.cumsum(most[known]) / count).max()
    bound = _rounded(min(max(abs(low), abs(high), _ANY[0]), _ANY[1]), _ANY)
    return (-bound if low < 0 else 0.0), (bound if high > 0 or low >= 0 else 0.0)


def _usual_rule(metric: Metric) -> _Rule:
    """Return the rule of other metrics, such as those of a user's script: the largest mean of a sample."""
    reduction = "".join(metric.reductions[:1])
    columns = (f"{metric.name}_{reduction}",) if reduction else ()
    return _Rule(columns, _from_extremes, _ANY, f"the largest {reduction} of a sample")


def _sizes(rule: _Rule, statistics: _Statistics, column: str) -> float | None:
    """Return the size of all steps together; None if no step has one."""
    try:
        with np.errstate(all="ignore"):
            size = rule.size(statistics, column)
    except KeyError:  # the run does not log what the column needs
        return None
    size = size[~np.isnan(size)].clip(*rule.bounds)
    if not len(size):
        return None
    return float(size.max() if rule.bounds == _ANY else (np.cumsum(size) / np.arange(1, len(size) + 1)).max())


def _rounded(size: float, bounds: tuple[float, float]) -> float:
    """Return the nearest tick by their ratio, within the bounds; without bounds the next one up."""
    power = 10.0 ** math.floor(math.log10(size) + 1e-9)
    if bounds == _ANY:
        nearest = next(tick for tick in _TICKS if tick * power >= size * (1 - 1e-9))
    else:
        nearest = min(_TICKS, key=lambda tick: abs(math.log(size / power / tick)))
    return min(max(float(f"{nearest * power:.6g}"), bounds[0]), bounds[1])


def _ends(metric: Metric, bound: float, statistics: _Statistics) -> Scale:
    """Return both ends of a scale of this size."""
    around = AROUND.get(metric.name, 0.0)
    if metric.scale == "diverging" or metric.name in AROUND:
        return around - bound, around + bound
    column = next(iter(metric.columns.values()))
    with np.errstate(all="ignore"):
        least, most = np.nanmin(statistics(column, "min")), np.nanmax(statistics(column, "max"))
    return (-bound if least < 0 else 0.0), (bound if most > 0 or least >= 0 else 0.0)
