"""What a column is, in words: for headers, axes, hover texts, menus and docs."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel import schema
from rlpanel.metrics.engine.metric import (
    LEVELS,
    METRICS,
    Good,
    Metric,
    get,
    metric,
    of_level,
    pooling,
    reduced,
    remembered,
    silent_at_zero,
    step_names,
    token_means,
    withdraw,
)

__all__ = [
    "ALIASES",
    "METRICS",
    "ColumnInfo",
    "Metric",
    "aliases",
    "canonical",
    "computed_columns",
    "describe",
    "get",
    "metric",
    "of_level",
    "pooling",
    "reduced",
    "shown",
    "silent_at_zero",
    "step_names",
    "token_means",
    "withdraw",
]


@dataclass(frozen=True)
class ColumnInfo:
    """What a sample column or a step metric means."""

    name: str
    label: str
    unit: str = ""
    detail: str = ""
    help: str = ""
    color: str = "muted"
    source: str = ""
    good: Good = ""
    advice: str = ""
    level: str = "sample"

    @property
    def axis(self) -> str:
        """Label, reduction and unit in one line: ``KL k3, mean per token (nats)``."""
        text = f"{self.label}, {self.detail}" if self.detail else self.label
        return f"{text} ({self.unit})" if self.unit else text

    @property
    def tip(self) -> str:
        """What it is, how to read it and where its formula is from, in one paragraph."""
        parts = [f"{self.axis}: {self.help}", self.advice, f"Good: {self.good}." if self.good else ""]
        parts.append(f"Formula: {self.source}." if self.source else "")
        parts.append(f"In TRL: {', '.join(self.aliases)}." if self.aliases else "")
        return " ".join(part for part in parts if part)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names that trainers log it under."""
        return tuple(alias for alias, name in aliases().items() if name == self.name)


_REDUCED = {"mean": "mean per token", "sum": "sum over tokens", "count": "tokens"}

#: Columns that are counted or logged rather than computed by a metric: label, unit, help, colour, and how to
#: read them.
_FIELDS: dict[str, ColumnInfo] = {
    c.name: c
    for c in (
        ColumnInfo(
            "response_tokens",
            "response length",
            "tokens",
            help="Number of response tokens logged.",
            color="length",
            advice="Where the shortest equals the longest, every response was cut.",
        ),
        ColumnInfo(
            "prompt_chars", "prompt length", "characters", help="Characters of the prompt.", color="length"
        ),
        ColumnInfo(
            "response_chars",
            "response length",
            "characters",
            help="Characters of the response.",
            color="length",
        ),
        ColumnInfo(
            "invalid_chars",
            "invalid characters",
            "characters",
            help="Characters U+FFFD of the response: bytes that are no UTF-8.",
            good="down",
            color="bad",
            advice="A byte-level tokenizer's policy can say half a character; trainers log it as U+FFFD.",
        ),
        ColumnInfo(
            "ended",
            "ended by itself",
            help="1 where the response ended with an end token, 0 where it was cut.",
            source="truncated where logged, else finish_reason",
            good="up",
            advice="A falling share means that answers outgrow the length limit.",
        ),
    )
}
_FIELD_COLORS = {
    "reward": "policy",
    "ref_reward": "reference",
    "valid_reward": "policy",
    "ref_valid_reward": "reference",
    "advantage": "policy",
}
_FIELD_READING: dict[str, tuple[Good, str]] = {
    "reward": ("up", "A rise says that the score rose, not that the answers got better: read some."),
    "truncated": ("down", "Cut answers often score low for their end alone; near 1 nothing finishes."),
}

#: Names that mean the same number. k1 *is* the log-ratio; it is stored once.
ALIASES = {"kl_k1_mean": "log_ratio_mean", "kl_k1_sum": "log_ratio_sum"}

#: TRL's names for what is logged as it is; the step's mean, deviation and spread are drawn together.
_FIELD_ALIASES = {
    "objective/scores": "reward",
    "env/reward_mean": "reward",
    "env/reward_std": "reward",
    "env/reward_dist": "reward",
    "reward_std": "reward",
    "tokens/responses_len_mean": "response_tokens",
    "tokens/responses_len_std": "response_tokens",
    "tokens/responses_len_dist": "response_tokens",
    "completions/mean_length": "response_tokens",
    "tokens/queries_len_mean": "prompt_chars",
    "tokens/queries_len_std": "prompt_chars",
    "tokens/queries_len_dist": "prompt_chars",
    "completions/clipped_ratio": "truncated",
}


@remembered
def aliases() -> dict[str, str]:
    """Every name that trainers log a number under → the column or step metric that it is."""
    declared = {alias: name for m in METRICS.values() for alias, name in m.aliases.items()}
    return {**_FIELD_ALIASES, **declared}


def canonical(name: str) -> str:
    """Rlpanel's own name of a column; the name itself where it is no other's."""
    return aliases().get(name, name)


@remembered
def computed_columns() -> frozenset[str]:
    """Names that a logged column may not take, because rlpanel computes columns of these names."""
    own = {m.name for m in METRICS.values()} | set(ALIASES) | {"ended"}
    return frozenset(own | reduced())


@remembered
def describe(name: str) -> ColumnInfo:
    """What the column ``name`` is; an unknown one is a custom column under its own name."""
    if name in ALIASES:
        source = describe(ALIASES[name])
        return ColumnInfo(name, "KL k1", "nats", source.detail, source.help, "kl", source.source)
    if name in METRICS:
        return _of(METRICS[name], name, "")
    base, _, reduction = name.rpartition("_")
    if base in METRICS and reduction in METRICS[base].columns:
        return _of(METRICS[base], name, _REDUCED[reduction])
    if name in _FIELDS:
        return _FIELDS[name]
    if name in schema.BY_NAME:
        f = schema.BY_NAME[name]
        good, advice = _FIELD_READING.get(name, ("", ""))
        color = _FIELD_COLORS.get(name, "muted")
        return ColumnInfo(name, f.label, f.unit, "", f.help, color, good=good, advice=advice)
    # A name without letters is quoted: where it stands alone, nothing would be seen of it.
    label = name if name.strip() else f'"{name}"'
    return ColumnInfo(name, label, help="Logged by the trainer under this name.")


def _of(m: Metric, name: str, detail: str) -> ColumnInfo:
    level = "sample" if detail else m.level
    return ColumnInfo(name, m.label, m.unit, detail, m.help, m.color, m.source, m.good, m.advice, level)


def shown() -> list[Metric]:
    """All metrics that people see: by token, by sample, by group, by step."""
    return [m for level in LEVELS for m in of_level(level) if not m.hidden]
