"""Declare a metric once; curves, grid, token colours, hover texts and docs read the declaration.

Four levels, and at each the parameters say what the function needs:

- *token*: elementwise on token arrays, of one sample or of thousands laid end to end. Its reductions
  become sample columns (``kl_k3`` → ``kl_k3_mean``, ``kl_k3_sum``).
- *sample*: elementwise on sample columns. With a parameter ``groups`` it looks at whole groups, and is
  computed when asked for, because a group may still be growing while rows come in.
- *group*: one number a group of a step, from ``groups`` and sample columns.
- *step*: one number a step, pooled over its samples, from ``by`` (and ``groups``) and sample columns.

Parameters before the ``*`` are needed. Those behind it are taken where they are there (default None): sample
columns, or constants of the training (`constants`); a constant without a default is needed.
A function whose name starts with an underscore is there for step metrics alone, and is shown nowhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from typing import Any, Literal, TypeVar

import numpy as np

from rlpanel.metrics.engine.constants import NAMES as CONSTANTS

Level = Literal["token", "sample", "group", "step"]
Scale = Literal["diverging", "sequential"]
Reduction = Literal["mean", "sum"]
Good = Literal["", "up", "down", "near 0", "near 1"]

LEVELS: tuple[Level, ...] = ("token", "sample", "group", "step")

#: Parameters that are no data: rows by step, rows by group, tokens by sample.
_ORDERING = frozenset({"by", "groups", "lengths"})


@dataclass(frozen=True)
class Metric:
    """What is known of a metric.

    Attributes
    ----------
    name, label, unit, help : str
        ``help`` is the docstring's first line.
    level : str
        ``token`` (shape (T,)), ``sample`` (shape (N,)), ``group`` (shape (G,)) or ``step`` (shape (S,)).
    source : str
        Paper or trainer file that the formula comes from.
    needs : tuple of str
        Fields or columns without which there is no value.
    constants : tuple of str
        Constants without which there is none.
    takes : tuple of str
        Fields, columns and constants that are used where they are there.
    ordering : tuple of str
        Which of ``by``, ``groups`` and ``lengths`` the function takes.
    reductions : tuple of str
        Which reductions over a sample's tokens become sample columns.
    pooled : bool
        Whether step metrics pool its tokens: sum and count become columns too, shown only where asked for.
    silent_at_zero : bool
        Whether a run in which it is 0 throughout has not logged it: trainers without a critic fill its fields
        with 0.0. Single rows do not tell, for a critic may start at 0.
    good : str
        Which way is good, where one is.
    advice : str
        How to read it and its trap, in a sentence.
    aliases : mapping of str to str
        Other names, as TRL logs them → the column each one is.
    scale, color : str
        How to draw it: ``diverging`` around zero or ``sequential``; the theme's colour name.
    """

    name: str
    label: str
    level: Level
    unit: str
    source: str
    needs: tuple[str, ...]
    constants: tuple[str, ...]
    takes: tuple[str, ...]
    ordering: tuple[str, ...]
    help: str
    function: Callable[..., np.ndarray]
    reductions: tuple[Reduction, ...] = ()
    pooled: bool = False
    silent_at_zero: bool = False
    good: Good = ""
    advice: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    scale: Scale = "sequential"
    color: str = "muted"

    @property
    def hidden(self) -> bool:
        """Whether it is there for step metrics alone."""
        return self.name.startswith("_")

    @cached_property
    def columns(self) -> dict[str, str]:
        """Its sample columns by reduction, those for pooling alone as well; empty above the token level."""
        pooling = ("sum", "count") if self.pooled else ()
        return {reduction: f"{self.name}_{reduction}" for reduction in (*self.reductions, *pooling)}

    @property
    def lazy(self) -> bool:
        """Whether it needs whole groups, and so waits until it is asked for."""
        return "groups" in self.ordering

    def available(self, fields: Collection[str]) -> bool:
        """Whether all that the function needs is there."""
        return all(need in fields for need in (*self.needs, *self.constants))

    def call(self, given: Mapping[str, Any]) -> np.ndarray:
        """The function on what it needs and what of the rest is there."""
        arguments = {name: given[name] for name in self._must}
        for name in self.takes:
            if name in given:
                arguments[name] = given[name]
        return self.function(**arguments)

    @cached_property
    def _must(self) -> tuple[str, ...]:
        return (*self.ordering, *self.needs, *self.constants)


METRICS: dict[str, Metric] = {}

Function = Callable[..., np.ndarray]
_Answer = TypeVar("_Answer", bound=Callable[..., Any])
_REMEMBERED: list[Callable[[], None]] = []


def remembered(function: _Answer) -> _Answer:
    """Remember the function's answers for as long as no metric comes or goes."""
    known = cache(function)
    _REMEMBERED.append(known.cache_clear)
    return wraps(function)(known)  # type: ignore[return-value]


def _forget() -> None:
    for clear in _REMEMBERED:
        clear()


def metric(
    label: str,
    *,
    level: Level,
    unit: str = "",
    source: str = "",
    reductions: tuple[Reduction, ...] = (),
    pooled: bool = False,
    silent_at_zero: bool = False,
    good: Good = "",
    advice: str = "",
    aliases: tuple[str, ...] | Mapping[str, str] = (),
    scale: Scale = "sequential",
    color: str = "muted",
    name: str = "",
) -> Callable[[Function], Function]:
    """Register the decorated function under its own name, or under ``name``.

    Parameters
    ----------
    aliases : tuple of str, or mapping of str to str
        Other names of the metric itself; or of its reductions, ``{"objective/kl": "sum"}``.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(function: Function) -> Function:
        own = name or function.__name__
        if own in METRICS:
            raise ValueError(f"metric {own!r} is declared twice")
        parameters = inspect.signature(function).parameters.values()
        must = [p.name for p in parameters if p.default is p.empty and p.name not in _ORDERING]
        METRICS[own] = Metric(
            name=own,
            label=label,
            level=level,
            unit=unit,
            source=source,
            needs=tuple(need for need in must if need not in CONSTANTS),
            constants=tuple(need for need in must if need in CONSTANTS),
            takes=tuple(p.name for p in parameters if p.default is not p.empty),
            ordering=tuple(p.name for p in parameters if p.name in _ORDERING),
            help=(inspect.getdoc(function) or "").split("\n")[0],
            function=function,
            reductions=reductions,
            pooled=pooled,
            silent_at_zero=silent_at_zero,
            good=good,
            advice=advice,
            aliases=_aliases(own, aliases),
            scale=scale,
            color=color,
        )
        _forget()
        return function

    return register


def withdraw(name: str) -> None:
    """Take a declaration back, so that a metric of this name can be declared anew (KeyError if none)."""
    del METRICS[name]
    _forget()


def _aliases(own: str, aliases: tuple[str, ...] | Mapping[str, str]) -> Mapping[str, str]:
    if isinstance(aliases, tuple):
        return dict.fromkeys(aliases, own)
    return {alias: f"{own}_{reduction}" for alias, reduction in aliases.items()}


def of_level(level: Level) -> list[Metric]:
    """The metrics of a level, in the order they were declared; those that are shown nowhere as well."""
    return [m for m in METRICS.values() if m.level == level]


def get(name: str) -> Metric:
    """The metric of this name (KeyError if none)."""
    return METRICS[name]


@remembered
def reduced() -> frozenset[str]:
    """Sample columns that token metrics are reduced to, those for pooling alone as well."""
    return frozenset(column for m in of_level("token") for column in m.columns.values())


@remembered
def pooling() -> frozenset[str]:
    """Sample columns that are there for step metrics alone, and shown nowhere."""
    shown = {f"{m.name}_{r}" for m in of_level("token") if not m.hidden for r in m.reductions}
    return reduced() - shown


@remembered
def silent_at_zero() -> frozenset[str]:
    """Sample columns that were not logged where they are 0 in the whole run."""
    mute = [m for m in METRICS.values() if m.silent_at_zero]
    return frozenset(column for m in mute for column in (m.columns.values() or [m.name]))


@remembered
def token_means() -> frozenset[str]:
    """Sample columns that are a mean over tokens (``kl_k3_mean``); their step mean keeps the name."""
    return frozenset(f"{m.name}_mean" for m in of_level("token") if "mean" in m.reductions)


@remembered
def step_names() -> tuple[str, ...]:
    """Names of the step metrics, in menu order."""
    return tuple(m.name for m in of_level("step"))
