"""Label, unit, help and colour of each column, for headers, axes, tooltips, menus and docs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlpanel import schema
from rlpanel.metrics.engine import definition, trainer_names
from rlpanel.metrics.engine.definition import AGENT_COLUMNS, Definition
from rlpanel.metrics.engine.metric import (
    LEVELS,
    METRICS,
    STATISTICS,
    Good,
    Metric,
    get,
    metric,
    of_level,
    pooling_columns,
    reduced_columns,
    registry_cache,
    split_statistic,
    step_names,
    token_mean_columns,
    unregister,
    zero_means_missing,
)
from rlpanel.metrics.engine.ragged import UNSCORED

__all__ = [
    "ALIASES",
    "METRICS",
    "ColumnInfo",
    "Metric",
    "computed_columns",
    "describe",
    "get",
    "is_computed",
    "is_outcome",
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
    definition: Definition = definition.NO_DEFINITION

    @property
    def axis(self) -> str:
        """Label, reduction and unit in one line, for example ``KL k3, mean per token (nats)``."""
        text = f"{self.label}, {self.detail}" if self.detail else self.label
        return f"{text} ({self.unit})" if self.unit not in ("", self.label) else text

    @property
    def tip(self) -> str:
        """Tooltip: meaning, compared pair, advice, source and trainer names, in one paragraph."""
        pair = self.definition.pair
        parts = [f"{self.axis}: {self.help}", f"Compares: {pair}." if pair else "", self.advice]
        parts.append(f"Good: {self.good}." if self.good else "")
        parts.append(f"Formula: {self.source}." if self.source else "")
        names = [f"{scalar} in {row.trainer}" for row, scalar in trainer_names.names_of(self.name)]
        parts.append(f"Logged as {', '.join(names)}." if names else "")
        return " ".join(part for part in parts if part)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names under which trainers log this number."""
        return tuple(dict.fromkeys(scalar for _, scalar in trainer_names.names_of(self.name)))


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
            "special_tokens",
            "special tokens in the response",
            "tokens",
            help="Number of special tokens, padding and parts of chat templates in the response's text. One "
            "token that ends the response does not count, nor do those of thoughts, tool calls and images.",
            source="<|…|>, <｜…｜>, <s>, </s>, <pad>, <start_of_turn>, [INST], [PAD] and the like",
            good="near 0",
            color="bad",
            advice="A rise means that the policy continues after its end, or that padding is decoded.",
        ),
        ColumnInfo(
            "prompt_echo",
            "prompt repeated in the response",
            help="1 if the response contains the second half of the prompt verbatim, else 0.",
            source="64 to 256 characters at the end of the prompt's last text between special tokens",
            good="near 0",
            color="bad",
            advice="Some answers restate the whole question; watch for a rise.",
        ),
        ColumnInfo(
            "foreign_script",
            "letters in scripts that the prompt does not use",
            "share",
            help="Share of the response's letters in scripts, such as Han or Cyrillic, that make up less "
            "than 5% of the prompt's letters. Latin letters count only if nearly all are Latin and less than "
            "30% of the prompt's. Of a long text, the first and the last 500 characters count.",
            good="near 0",
            color="bad",
            advice="A rise means that the policy drifts into another language.",
        ),
        ColumnInfo(
            "engine_shift",
            "shift of the engine's logprobs",
            help="Correlation of trainer's and engine's logprobs with a shift by one token, to the better "
            "side, minus that without.",
            source="Pearson, over the tokens of a sample",
            good="down",
            color="bad",
            advice="Usually near -1. Well above 0, the two arrays are shifted by one token.",
        ),
        ColumnInfo(
            "ref_shift",
            "shift of the reference's logprobs",
            help="Correlation of trainer's and reference's logprobs with a shift by one token, to the better "
            "side, minus that without.",
            source="Pearson, over the tokens of a sample",
            good="down",
            color="bad",
            advice="Usually below -0.3. Well above 0, the two arrays are shifted by one token.",
        ),
        ColumnInfo(
            "ended",
            "ended (not truncated)",
            help="1 if the response ended with an end token, 0 if it was truncated.",
            source="truncated where logged, else finish_reason",
            good="up",
            advice="A falling share means that more answers exceed the length limit.",
        ),
        ColumnInfo(
            "token_arrays_left_out",
            "token arrays left out",
            "arrays",
            help="Number of lists, one value per token, of a sample that have no columns: a run has those of "
            "32 lists.",
            good="down",
        ),
    )
}
_FIELDS |= {
    column: ColumnInfo(
        column,
        f"tokens without a finite {schema.BY_NAME[name].label}",
        "tokens",
        help=f"Number of tokens in the loss mask whose `{name}` are NaN, infinite or null. Only samples with "
        "such tokens have it.",
        good="down",
        color="bad",
        advice="Means leave these tokens out. vLLM cannot score some tokens; the trainer should score all.",
    )
    for name, column in UNSCORED.items()
}
_FIELDS |= {
    c.name: ColumnInfo(c.name, c.label, c.unit, help=c.help, good=c.good, color="length")
    for c in AGENT_COLUMNS
}
#: Columns that are counted when a line is read, whose names are reserved.
COUNTED = {
    *("ended", "special_tokens", "prompt_echo", "foreign_script", "engine_shift", "ref_shift"),
    schema.TOKEN_ARRAYS_LEFT_OUT,
    *UNSCORED.values(),
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


@registry_cache
def computed_columns() -> frozenset[str]:
    """Return the reserved column names: rlpanel computes columns with these names itself."""
    names = {m.name for m in METRICS.values()} | set(ALIASES) | COUNTED
    return frozenset(names | reduced_columns())


def is_computed(name: str) -> bool:
    """Return True if rlpanel computes a column of this name itself."""
    return name in computed_columns() or name.startswith(schema.TOKEN_COLUMNS)


#: Columns that describe how an episode ended: of its rows, only the last one's value counts.
_OUTCOMES = {"reward", "ref_reward", "valid_reward", "ref_valid_reward"}
#: Columns of recorders and adapters that describe a row.
_OF_ROWS = {"turn", "time", "is_masked", "terminal_reward", "terminal_value"}
_OF_NAMES = (schema.TOOL_CALLS, schema.TOOL_ERRORS, *schema.TOKEN_COLUMNS)


@registry_cache
def is_outcome(column: str) -> bool:
    """Return True for rewards, what is computed of them, and numbers of the log that rlpanel does not know.

    Statistics count an outcome once per episode, and other columns, such as tokens, in each row.
    """
    found = METRICS.get(column)
    if found is not None:
        return found.level == "sample" and any(map(is_outcome, found.needs))
    known = column in computed_columns() or column in _FIELDS or column in schema.BY_NAME
    known |= column in _OF_ROWS or column.startswith(_OF_NAMES)
    return column in _OUTCOMES or not known


@registry_cache
def describe(name: str) -> ColumnInfo:
    """Return the description of a curve; an unknown name is taken for a custom column of the trainer."""
    column, statistic = split_statistic(name)
    if statistic:
        return _describe_statistic(describe(column), name, statistic)
    if name in ALIASES:
        return replace(describe(ALIASES[name]), name=name, label="KL k1")
    if name in METRICS:
        return _describe_metric(METRICS[name], name, "")
    base, _, reduction = name.rpartition("_")
    if base in METRICS and reduction in METRICS[base].columns:
        return _describe_metric(METRICS[base], name, _REDUCED[reduction])
    if name in _FIELDS:
        return replace(_FIELDS[name], definition=definition.COLUMNS[name])
    if name.startswith((schema.TOOL_CALLS, schema.TOOL_ERRORS)):
        return _describe_tool(name)
    if name.startswith(schema.TOKEN_COLUMNS):
        return _describe_array(name)
    if name in schema.BY_NAME:
        f = schema.BY_NAME[name]
        good, advice = _FIELD_READING.get(name, ("", ""))
        color = _FIELD_COLORS.get(name, "muted")
        defined = definition.COLUMNS.get(name, definition.NO_DEFINITION)
        return ColumnInfo(name, f.label, f.unit, "", f.help, color, "", good, advice, definition=defined)
    # Quote a name of blanks only, since it would be invisible on screen.
    label = name if name.strip() else f'"{name}"'
    return ColumnInfo(name, label, help="Logged by the trainer under this name.")


def _describe_tool(name: str) -> ColumnInfo:
    """Return the description of the calls or errors of one tool."""
    kind, _, tool = name.partition(".")
    base = _FIELDS[kind]
    text = f"{base.help} Only calls of {tool} and samples that called it count."
    return replace(base, name=name, label=f"{base.label}, {tool}", help=text)


_ARRAY_STATISTICS = {
    schema.TOKEN_MEAN: ("mean per token", "Mean"),
    schema.TOKEN_MIN: ("smallest token", "Smallest"),
    schema.TOKEN_MAX: ("largest token", "Largest"),
}


def _describe_array(name: str) -> ColumnInfo:
    """Return the description of a statistic of a token array that the trainer logs and no field describes."""
    prefix = next(prefix for prefix in schema.TOKEN_COLUMNS if name.startswith(prefix))
    detail, statistic = _ARRAY_STATISTICS[prefix]
    array = name.removeprefix(prefix)
    return ColumnInfo(
        name,
        array if array.strip() else f'"{array}"',
        detail=detail,
        help=f"{statistic} value of a list that the trainer logs under this name, one value per token.",
        source="the finite values in the loss mask",
    )


def _describe_statistic(column: ColumnInfo, name: str, statistic: str) -> ColumnInfo:
    return replace(
        column,
        name=name,
        label=f"{column.label} {statistic}",
        detail=f"of {column.detail}" if column.detail else "over samples",
        help=f"{STATISTICS[statistic].capitalize()} over the samples of a step. {column.help}",
        good="",
        advice="",
        level="step",
    )


def _describe_metric(m: Metric, name: str, detail: str) -> ColumnInfo:
    level = "sample" if detail else m.level
    text = definition.of_metric(m)
    return ColumnInfo(name, m.label, m.unit, detail, m.help, m.color, m.source, m.good, m.advice, level, text)


def visible_metrics() -> list[Metric]:
    """Return all visible metrics, ordered by level: token, sample, group, step."""
    return [m for level in LEVELS for m in of_level(level) if not m.hidden]
