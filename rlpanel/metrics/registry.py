"""Declare a metric once; curves, grid, token colours, hover texts and docs read the declaration.

A *token* metric is an elementwise function of token arrays, so the same code serves one sample and a
batch of thousands laid end to end. Its reductions become sample columns (``kl_k3`` → ``kl_k3_mean``,
``kl_k3_sum``). A *sample* metric is an elementwise function of sample columns. The argument names are
the fields needed, so the registry knows when a run can show it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from rlpanel import schema

Level = Literal["token", "sample"]
Scale = Literal["diverging", "sequential"]
Reduction = Literal["mean", "sum"]


@dataclass(frozen=True)
class Metric:
    """What is known of a metric.

    Attributes
    ----------
    name, label, unit, help : str
        ``help`` is the docstring's first line.
    level : str
        ``token`` (shape (T,)) or ``sample`` (shape (N,)).
    source : str
        Paper or trainer file that the formula comes from.
    needs : tuple of str
        Fields or columns that the function takes.
    reductions : tuple of str
        Which reductions over a sample's tokens become sample columns.
    scale, color : str
        How to draw it: ``diverging`` around zero or ``sequential``; the theme's colour name.
    """

    name: str
    label: str
    level: Level
    unit: str
    source: str
    needs: tuple[str, ...]
    help: str
    function: Callable[..., np.ndarray]
    reductions: tuple[Reduction, ...] = ()
    scale: Scale = "sequential"
    color: str = "muted"

    def available(self, fields: Mapping[str, object] | set[str]) -> bool:
        """Whether all that the function takes is there."""
        return all(need in fields for need in self.needs)


METRICS: dict[str, Metric] = {}


def metric(
    label: str,
    *,
    level: Level,
    unit: str = "",
    source: str = "",
    reductions: tuple[Reduction, ...] = (),
    scale: Scale = "sequential",
    color: str = "muted",
) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Register the decorated function under its own name.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        name = function.__name__
        if name in METRICS:
            raise ValueError(f"metric {name!r} is declared twice")
        METRICS[name] = Metric(
            name=name,
            label=label,
            level=level,
            unit=unit,
            source=source,
            needs=tuple(inspect.signature(function).parameters),
            help=(inspect.getdoc(function) or "").split("\n")[0],
            function=function,
            reductions=reductions,
            scale=scale,
            color=color,
        )
        return function

    return register


def of_level(level: Level) -> list[Metric]:
    """The metrics of a level, in the order they were declared."""
    return [m for m in METRICS.values() if m.level == level]


def get(name: str) -> Metric:
    """The metric of this name (KeyError if none)."""
    return METRICS[name]


@dataclass(frozen=True)
class Column:
    """What a sample column means, for headers, axes and hover texts."""

    name: str
    label: str
    unit: str = ""
    detail: str = ""
    help: str = ""
    color: str = "muted"
    source: str = ""

    @property
    def axis(self) -> str:
        """Label, reduction and unit in one line: ``KL k3, mean per token (nats)``."""
        text = f"{self.label}, {self.detail}" if self.detail else self.label
        return f"{text} ({self.unit})" if self.unit else text


_REDUCED = {"mean": "mean per token", "sum": "sum over tokens"}
_COUNTS = {
    "response_tokens": ("response length", "tokens", "Number of response tokens logged."),
    "prompt_chars": ("prompt length", "characters", "Characters of the prompt."),
    "response_chars": ("response length", "characters", "Characters of the response."),
}
_FIELD_COLORS = {
    "reward": "policy",
    "ref_reward": "reference",
    "valid_reward": "policy",
    "ref_valid_reward": "reference",
    "advantage": "policy",
}

#: Names that mean the same number. k1 *is* the log-ratio; it is stored once.
ALIASES = {"kl_k1_mean": "log_ratio_mean", "kl_k1_sum": "log_ratio_sum"}


@cache
def token_means() -> frozenset[str]:
    """Sample columns that are a mean over tokens (``kl_k3_mean``); their step mean keeps the name."""
    return frozenset(f"{m.name}_mean" for m in of_level("token") if "mean" in m.reductions)


@cache
def computed_columns() -> frozenset[str]:
    """Names that a logged column may not take, because rlpanel computes columns of these names."""
    tokens = of_level("token")
    reduced = {f"{m.name}_{reduction}" for m in tokens for reduction in m.reductions}
    return frozenset({m.name for m in tokens} | reduced | {m.name for m in of_level("sample")} | set(ALIASES))


@cache
def describe(name: str) -> Column:
    """What the sample column ``name`` is; an unknown one is a custom column under its own name."""
    if name in ALIASES:
        source = describe(ALIASES[name])
        return Column(name, "KL k1", "nats", source.detail, source.help, "kl", source.source)
    if name in METRICS:
        m = METRICS[name]
        return Column(name, m.label, m.unit, "", m.help, m.color, m.source)
    base, _, reduction = name.rpartition("_")
    if base in METRICS and reduction in METRICS[base].reductions:
        m = METRICS[base]
        return Column(name, m.label, m.unit, _REDUCED[reduction], m.help, m.color, m.source)
    if name in _COUNTS:
        label, unit, text = _COUNTS[name]
        return Column(name, label, unit, "", text, "length")
    if name in schema.BY_NAME:
        f = schema.BY_NAME[name]
        return Column(name, f.label, f.unit, "", f.help, _FIELD_COLORS.get(name, "muted"))
    return Column(name, name, help="Logged by the trainer under this name.")
