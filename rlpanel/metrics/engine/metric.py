"""Registry of metrics. Curves, grid, token colours, tooltips and docs all use the same declaration.

There are four levels. At each level the function's parameters name its inputs:

- *token*: elementwise on token arrays, of one sample or of a ragged batch. Its reductions become sample
  columns (``kl_k3`` → ``kl_k3_mean``, ``kl_k3_sum``).
- *sample*: elementwise on sample columns. With a parameter ``groups`` it reads whole groups and is lazy
  (computed on demand), because a group may still grow while rows arrive.
- *group*: one number per group of a step, from ``groups`` and sample columns.
- *step*: one number per step, pooled over its samples, from ``by`` (and ``groups``) and sample columns.

Parameters without a default are required. Those with a default of None are optional: they are passed if
available. Both name sample columns or training constants (`constants`).
A function whose name starts with an underscore serves step metrics only and is hidden.

The shapes: T tokens, N samples, G groups, S steps. `metric` appends parameters and result, with shapes and
units, to a docstring that has none, so `help` shows them.

Curves of a statistic of a column over each step's samples, such as ``reward:std``.

A column's plain name stands for its mean.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from rlpanel.metrics.engine.constants import NAMES as CONSTANTS
from rlpanel.schema import BY_NAME

Level = Literal["token", "sample", "group", "step"]
Scale = Literal["diverging", "sequential"]
Reduction = Literal["mean", "sum"]
Good = Literal["", "up", "down", "near 0", "near 1"]

LEVELS: tuple[Level, ...] = ("token", "sample", "group", "step")

#: Parameters that describe structure rather than data: rows by step, rows by group, tokens by sample.
_ORDERING = {
    "by": "Segments of the rows of each step",
    "groups": "SubSegments of the rows of each group",
    "lengths": "ndarray of int, tokens of each sample",
}


@dataclass(frozen=True)
class Metric:
    """Declaration of a metric.

    Attributes
    ----------
    name, label, unit, help : str
        ``help`` is the docstring's first line.
    level : str
        ``token`` (shape (T,)), ``sample`` (shape (N,)), ``group`` (shape (G,)) or ``step`` (shape (S,)).
    source : str
        Paper or trainer file of the formula.
    formula : str
        The formula in LaTeX, in the symbols that `docs/metrics.md` explains; empty for a logged quantity.
    needs : tuple of str
        Required fields or columns.
    constants : tuple of str
        Required training constants.
    optional : tuple of str
        Optional fields, columns and constants.
    ordering : tuple of str
        Those of ``by``, ``groups`` and ``lengths`` that the function takes.
    reductions : tuple of str
        Reductions over a sample's tokens that become sample columns.
    pooled : bool
        True if step metrics pool its tokens. If so, sum and count become columns too; they are hidden unless
        they are among ``reductions``.
    masked : bool
        True if its reductions leave out tokens outside the loss mask.
    single : bool
        True if groups of one sample have a value, so that it exists in runs without groups, too.
    zero_means_missing : bool
        True if a run in which it is always 0 counts as not having logged it, since trainers without a critic
        fill such fields with 0.0. Single rows prove nothing, because a critic may start at 0.
    with_discarded : bool
        True if a step metric also reads the samples of the step that were not trained on.
    good : str
        Desired direction or value; empty if neither is better.
    advice : str
        How to read the metric and what can mislead, in one or two sentences.
    compares, quantity, over, undefined : str
        What it compares or, if it is about one quantity only, that quantity; what it is averaged over; and
        where it has no value. Texts that are empty are generated, see `rlpanel.metrics.engine.definition`.
    scale, color : str
        Colour scale, ``diverging`` around zero or ``sequential``, and the theme's colour name.
    """

    name: str
    label: str
    level: Level
    unit: str
    source: str
    needs: tuple[str, ...]
    constants: tuple[str, ...]
    optional: tuple[str, ...]
    ordering: tuple[str, ...]
    help: str
    function: Callable[..., np.ndarray]
    reductions: tuple[Reduction, ...] = ()
    pooled: bool = False
    masked: bool = True
    single: bool = False
    zero_means_missing: bool = False
    with_discarded: bool = False
    good: Good = ""
    advice: str = ""
    compares: str = ""
    quantity: str = ""
    over: str = ""
    undefined: str = ""
    scale: Scale = "sequential"
    color: str = "muted"
    formula: str = ""

    @property
    def hidden(self) -> bool:
        """True if it serves step metrics only and is not displayed."""
        return self.name.startswith("_")

    @cached_property
    def columns(self) -> dict[str, str]:
        """Its sample columns by reduction, including hidden ones for pooling; empty unless a token metric."""
        pooling = ("sum", "count") if self.pooled else ()
        return {reduction: f"{self.name}_{reduction}" for reduction in (*self.reductions, *pooling)}

    @property
    def lazy(self) -> bool:
        """True if it needs whole groups and is therefore computed on demand."""
        return "groups" in self.ordering

    def available(self, fields: Collection[str]) -> bool:
        """Return True if all required fields, columns and constants are among ``fields``."""
        return all(need in fields for need in (*self.needs, *self.constants))

    def call(self, inputs: Mapping[str, Any]) -> np.ndarray:
        """Call the function with its required inputs and those optional ones that are available."""
        arguments = {name: inputs[name] for name in self._required}
        for name in self.optional:
            if name in inputs:
                arguments[name] = inputs[name]
        return self.function(**arguments)

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return (*self.ordering, *self.needs, *self.constants)


METRICS: dict[str, Metric] = {}

Function = Callable[..., np.ndarray]
_Cached = TypeVar("_Cached", bound=Callable[..., Any])
_CACHE_CLEARS: list[Callable[[], None]] = []


def registry_cache(function: _Cached) -> _Cached:
    """Cache the function's results until a metric is registered or removed (decorator)."""
    cached = cache(function)
    _CACHE_CLEARS.append(cached.cache_clear)
    return wraps(function)(cached)  # type: ignore[return-value]


def _clear_caches() -> None:
    for clear in _CACHE_CLEARS:
        clear()


def metric(
    label: str,
    *,
    level: Level,
    unit: str = "",
    formula: str = "",
    source: str = "",
    reductions: tuple[Reduction, ...] = (),
    pooled: bool = False,
    masked: bool = True,
    single: bool = False,
    zero_means_missing: bool = False,
    with_discarded: bool = False,
    good: Good = "",
    advice: str = "",
    compares: str = "",
    quantity: str = "",
    over: str = "",
    undefined: str = "",
    scale: Scale = "sequential",
    color: str = "muted",
    name: str = "",
) -> Callable[[Function], Function]:
    """Register the decorated function as a metric under its own name, or under ``name``.

    Raises
    ------
    ValueError
        If the name is already registered, or a reduction is neither ``"mean"`` nor ``"sum"``.
    """
    if unknown := set(reductions) - set(get_args(Reduction)):
        raise ValueError(
            f"no reduction {', '.join(sorted(unknown))}; there are {', '.join(get_args(Reduction))}"
        )

    def register(function: Function) -> Function:
        metric_name = name or function.__name__
        if metric_name in METRICS:
            raise ValueError(f"metric {metric_name!r} is declared twice")
        parameters = inspect.signature(function).parameters.values()
        required = [p.name for p in parameters if p.default is p.empty and p.name not in _ORDERING]
        METRICS[metric_name] = Metric(
            name=metric_name,
            label=label,
            level=level,
            unit=unit,
            formula=formula,
            source=source,
            needs=tuple(need for need in required if need not in CONSTANTS),
            constants=tuple(need for need in required if need in CONSTANTS),
            optional=tuple(p.name for p in parameters if p.default is not p.empty),
            ordering=tuple(p.name for p in parameters if p.name in _ORDERING),
            help=(inspect.getdoc(function) or "").split("\n")[0],
            function=function,
            reductions=reductions,
            pooled=pooled,
            masked=masked,
            single=single,
            zero_means_missing=zero_means_missing,
            with_discarded=with_discarded,
            good=good,
            advice=advice,
            compares=compares,
            quantity=quantity,
            over=over,
            undefined=undefined,
            scale=scale,
            color=color,
        )
        _document(METRICS[metric_name])
        _clear_caches()
        return function

    return register


def _document(declared: Metric) -> None:
    """Append parameters and result with shapes and units to the function's docstring, if it has none."""
    doc = inspect.getdoc(declared.function)
    if not doc or "Parameters\n---" in doc:
        return
    lines = [doc, "", "Parameters", "----------"]
    for name in inspect.signature(declared.function).parameters:
        lines += _parameter(name, declared)
    unit = f"    Unit: {declared.unit}." if declared.unit else ""
    shape = {"token": "T", "sample": "N", "group": "G", "step": "S"}[declared.level]
    lines += ["", "Returns", "-------", f"ndarray, shape ({shape},)", *([unit] if unit else [])]
    declared.function.__doc__ = "\n".join(lines)


def _parameter(name: str, declared: Metric) -> list[str]:
    if name in _ORDERING:
        return [f"{name} : {_ORDERING[name]}"]
    optional = ", optional" if name in declared.optional else ""
    if name in CONSTANTS:
        return [f"{name} : float{optional}", "    A constant of training."]
    field = BY_NAME.get(name)
    shape = "T" if declared.level == "token" else "N"
    unit = [f"    Unit: {field.unit}."] if field and field.unit else []
    return [f"{name} : ndarray, shape ({shape},){optional}", *unit]


def unregister(name: str) -> None:
    """Remove a metric, so that the name can be registered again; KeyError if it is not registered."""
    del METRICS[name]
    _clear_caches()


def of_level(level: Level) -> list[Metric]:
    """Return the metrics of a level, hidden ones included, in the order of declaration."""
    return [m for m in METRICS.values() if m.level == level]


def get(name: str) -> Metric:
    """Return the metric of this name; KeyError if there is none."""
    return METRICS[name]


@registry_cache
def reduced_columns() -> frozenset[str]:
    """Return the sample columns that token metrics are reduced to, including hidden ones for pooling."""
    return frozenset(column for m in of_level("token") for column in m.columns.values())


@registry_cache
def pooling_columns() -> frozenset[str]:
    """Return the sample columns that serve step metrics only and are hidden."""
    visible = {f"{m.name}_{r}" for m in of_level("token") if not m.hidden for r in m.reductions}
    return reduced_columns() - visible


@registry_cache
def zero_means_missing() -> frozenset[str]:
    """Return the sample columns that count as not logged if they are 0 in the whole run."""
    metrics = [m for m in METRICS.values() if m.zero_means_missing]
    return frozenset(column for m in metrics for column in (m.columns.values() or [m.name]))


@registry_cache
def token_mean_columns() -> frozenset[str]:
    """Return the sample columns that are means over tokens; their step mean keeps the name."""
    return frozenset(f"{m.name}_mean" for m in of_level("token") if "mean" in m.reductions)


@registry_cache
def step_names() -> tuple[str, ...]:
    """Return the names of the step metrics, in menu order."""
    return tuple(m.name for m in of_level("step"))


#: Statistic → its description.
STATISTICS = {"std": "standard deviation", "min": "minimum", "max": "maximum"}


def split_statistic(curve: str) -> tuple[str, str]:
    """Return the column and the statistic of a curve's name; the statistic of a plain column is empty."""
    column, colon, statistic = curve.rpartition(":")
    return (column, statistic) if colon and column and statistic in STATISTICS else (curve, "")
