"""Label, unit, help and colour of each column, for headers, axes, tooltips, menus and docs."""

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
    pooling_columns,
    reduced_columns,
    registry_cache,
    step_names,
    token_mean_columns,
    unregister,
    zero_means_missing,
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
    "pooling_columns",
    "reduced_columns",
    "step_names",
    "token_mean_columns",
    "unregister",
    "visible_metrics",
    "zero_means_missing",
]


@dataclass(frozen=True)
class ColumnInfo:
    """Description of a sample column or a step metric."""

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
        """Label, reduction and unit in one line, for example ``KL k3, mean per token (nats)``."""
        text = f"{self.label}, {self.detail}" if self.detail else self.label
        return f"{text} ({self.unit})" if self.unit else text

    @property
    def tip(self) -> str:
        """Tooltip: definition, advice, source of the formula and trainer names, in one paragraph."""
        parts = [f"{self.axis}: {self.help}", self.advice, f"Good: {self.good}." if self.good else ""]
        parts.append(f"Formula: {self.source}." if self.source else "")
        parts.append(f"In TRL: {', '.join(self.aliases)}." if self.aliases else "")
        return " ".join(part for part in parts if part)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names under which trainers log this number."""
        return tuple(alias for alias, name in aliases().items() if name == self.name)


_REDUCED = {"mean": "mean per token", "sum": "sum over tokens", "count": "tokens"}

#: Descriptions of columns that are counted at ingest rather than computed by a metric.
_FIELDS: dict[str, ColumnInfo] = {
    c.name: c
    for c in (
        ColumnInfo(
            "response_tokens",
            "response length",
            "tokens",
            help="Number of response tokens that the policy wrote. With a loss mask, tokens of tools and "
            "environments are not counted; a mask of zeros excludes a sample from the loss, so all count.",
            color="length",
            advice="If minimum and maximum are equal, every response was truncated.",
        ),
        ColumnInfo(
            "trajectory_tokens",
            "trajectory length",
            "tokens",
            help="Number of all response tokens, including those of tools and environments. Only samples "
            "with a loss mask have it.",
            color="length",
            advice="If it rises and the response length does not, the tools return more text.",
        ),
        ColumnInfo(
            "prompt_chars",
            "prompt length",
            "characters",
            help="Number of characters in the prompt.",
            color="length",
        ),
        ColumnInfo(
            "response_chars",
            "response length",
            "characters",
            help="Number of characters in the response.",
            color="length",
        ),
        ColumnInfo(
            "invalid_chars",
            "invalid characters",
            "characters",
            help="Number of U+FFFD characters in the response, which replace bytes that are not valid UTF-8.",
            good="down",
            color="bad",
            advice="With a byte-level tokenizer a policy can emit half a character; trainers log it as "
            "U+FFFD.",
        ),
        ColumnInfo(
            "ended",
            "ended (not truncated)",
            help="1 if the response ended with an end token, 0 if it was truncated.",
            source="truncated where logged, else finish_reason",
            good="up",
            advice="A falling share means that more answers exceed the length limit.",
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
    "reward": ("up", "A higher reward does not prove better answers: read some samples."),
    "truncated": (
        "down",
        "Truncated answers often score low just because they lack an end; near 1 no answer finishes.",
    ),
}

#: Second names of columns: k1 *is* the log-ratio, so it is stored only once.
ALIASES = {"kl_k1_mean": "log_ratio_mean", "kl_k1_sum": "log_ratio_sum"}

#: TRL's names of logged columns. A step's mean, std and distribution lead to the same plot.
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


@registry_cache
def aliases() -> dict[str, str]:
    """Return the column or step metric for each name under which trainers log it."""
    declared = {alias: name for m in METRICS.values() for alias, name in m.aliases.items()}
    return {**_FIELD_ALIASES, **declared}


def canonical(name: str) -> str:
    """Return rlpanel's name for a trainer's name; other names are returned unchanged."""
    return aliases().get(name, name)


@registry_cache
def computed_columns() -> frozenset[str]:
    """Return the reserved column names: rlpanel computes columns with these names itself."""
    names = {m.name for m in METRICS.values()} | set(ALIASES) | {"ended"}
    return frozenset(names | reduced_columns())


@registry_cache
def describe(name: str) -> ColumnInfo:
    """Return the description of a column; an unknown name is taken for a custom column of the trainer."""
    if name in ALIASES:
        source = describe(ALIASES[name])
        return ColumnInfo(name, "KL k1", "nats", source.detail, source.help, "kl", source.source)
    if name in METRICS:
        return _describe_metric(METRICS[name], name, "")
    base, _, reduction = name.rpartition("_")
    if base in METRICS and reduction in METRICS[base].columns:
        return _describe_metric(METRICS[base], name, _REDUCED[reduction])
    if name in _FIELDS:
        return _FIELDS[name]
    if name in schema.BY_NAME:
        f = schema.BY_NAME[name]
        good, advice = _FIELD_READING.get(name, ("", ""))
        color = _FIELD_COLORS.get(name, "muted")
        return ColumnInfo(name, f.label, f.unit, "", f.help, color, good=good, advice=advice)
    # Quote a name of blanks only, since it would be invisible on screen.
    label = name if name.strip() else f'"{name}"'
    return ColumnInfo(name, label, help="Logged by the trainer under this name.")


def _describe_metric(m: Metric, name: str, detail: str) -> ColumnInfo:
    level = "sample" if detail else m.level
    return ColumnInfo(name, m.label, m.unit, detail, m.help, m.color, m.source, m.good, m.advice, level)


def visible_metrics() -> list[Metric]:
    """Return all visible metrics, ordered by level: token, sample, group, step."""
    return [m for level in LEVELS for m in of_level(level) if not m.hidden]
