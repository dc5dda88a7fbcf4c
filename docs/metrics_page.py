"""Generates the page on metrics: what each number compares, averages and needs, and where it is undefined."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docs import trainer_names
from rlpanel.metrics.engine import column_info, definition
from rlpanel.metrics.engine.constants import DECLARED
from rlpanel.metrics.engine.metric import STATISTICS

_LEVELS = {
    "token": (
        "By token",
        "One value per token, shown in the token view. Its mean and sum are columns of the sample.",
    ),
    "sample": (
        "By sample",
        "One value per sample: columns of the grid, and curves with bands over the steps.",
    ),
    "group": (
        "By group",
        "One value for the samples of a step that have the same group id or prompt.",
    ),
    "step": ("By step", "One value per step, pooled over its samples or tokens: curves without bands."),
}


#: The rule on episodes, with its sources.
_EPISODES = [
    "## Episodes",
    "",
    "An episode may have several rows: the outputs of a session, the steps of a trajectory, the "
    "branches of a trace. A policy is trained on each, but the episode was scored once.",
    "",
    "- **Unit.** Rows of one split and step with the same `episode`, `agent` and `trajectory` are one "
    "unit. A row without `episode` is one of its own; so is a row whose `episode` is a number and that "
    "has no `group`, `agent`, `trajectory` or `turn`, because TRL's PPO counts episodes under this "
    "name.",
    "- **Outcome.** The outcome of a unit is that of its last row: the highest `turn` if it is logged, "
    "else the last one by file name and place in the file.",
    "- **Columns.** Outcomes are `reward`, `ref_reward`, `valid_reward`, `ref_valid_reward`, "
    "`rewards/<name>`, what is computed from them, and numbers of the log that rlpanel does not know, "
    "such as `acc`. In the unit's other rows they do not count: in means, standard deviations, "
    "quantiles, histograms, pass rates, groups, prompts, comparisons and findings. The members of a "
    "group are units, and a unit's prompt is that of its first row. All other columns (tokens, KL, "
    "entropy, lengths, seconds, advantages) are counted by rows, since these are trained on.",
    "- **Shown.** The table of samples, one sample, filters and exports have every row as it was "
    "logged. The number of `episodes` is beside that of samples where they differ. The setting *Count "
    "rewards by*, the option `--by rows`, and `run.by_rows` in Python count each row; findings always "
    "count episodes.",
    "",
    "So the numbers are those of the trainers: verl's validation takes the last output of each session "
    "(`trainer_base.py`), SkyRL scores the last step of each trajectory (`_scored_view` in "
    "`evaluate.py`), and prime-rl's statistics are over traces (`metrics.py`).",
]


def metrics_page() -> str:
    """Return the page of all numbers: logged ones, and declared metrics by level."""
    parts = ["# Metrics", "", _FROM_REGISTRY, "", *_READING, "", *_EPISODES, "", *_logged()]
    for level, (title, text) in _LEVELS.items():
        visible = [m for m in column_info.visible_metrics() if m.level == level]
        parts += [f"## {title}", "", text, "", *(line for m in visible for line in _metric(m))]
    return "\n".join([*parts, *_constants(), *trainer_names.section()])


def _logged() -> list[str]:
    """Return the section on columns that are logged, or counted when a line is read."""
    lines = ["## Logged and counted", "", _LOGGED, ""]
    for name in definition.COLUMNS:
        lines += _entry(column_info.describe(name), [name, *(f"{name}:{each}" for each in STATISTICS)])
    return lines


def _metric(m: column_info.Metric) -> list[str]:
    """Return the entry of a metric."""
    facts = {
        "Needs": ", ".join([*_fields(definition.inputs(m)), *(["groups of samples"] if m.lazy else [])]),
        "Uses if known": ", ".join(_fields(definition.optional_inputs(m))),
        "Columns": _code(_columns(m)),
    }
    return _entry(column_info.describe(m.name), [m.name, *_columns(m)], facts, m.formula)


def _logged_as(curve: str) -> str:
    names = trainer_names.names_text(curve)
    return f"`{curve}` = {names}" if names else ""


def _columns(m: column_info.Metric) -> list[str]:
    return [f"{m.name}_{reduction}" for reduction in m.reductions]


def _fields(names: tuple[str, ...]) -> Iterable[str]:
    """Return inputs as fields of a line, each once."""
    return dict.fromkeys(_NEEDS.get(name, f"`{name}`") for name in names)


def needed_fields(m: column_info.Metric) -> set[str]:
    """Return the names of the fields of a line that a metric needs."""
    return {name for text in _fields(definition.inputs(m)) for name in re.findall(r"`(\w+)`", text)}


def _entry(
    info: column_info.ColumnInfo, curves: list[str], more: dict[str, str] | None = None, formula: str = ""
) -> list[str]:
    """Return the entry of a number with these curves: heading, meaning, and a list of facts."""
    pair, quantity = info.definition.pair, info.definition.quantity
    facts = {
        "Formula": f"${formula}$" if formula else "",
        "Compares": pair,
        "Quantity": quantity,
        "Averaged over": info.definition.over,
        "Not defined": info.definition.undefined,
        "Source": info.source,
        **(more or {}),
        "Logged as": "; ".join(filter(None, map(_logged_as, curves))),
        "Unit": info.unit,
        "Good": info.good,
    }
    listed = [f"- **{title}:** {text}" for title, text in facts.items() if text]
    return [f"### {info.label} · `{info.name}`", "", f"{info.help} {info.advice}".strip(), "", *listed, ""]


def _constants() -> list[str]:
    """Return the section on the constants of the training that formulas use."""
    head = ["| constant | keys in `run.json` | default | meaning |", "|---|---|---|---|"]
    rows = [f"| {c.label} | {_code((c.name, *c.keys))} | {_usual(c.usual)} | {c.help} |" for c in DECLARED]
    return ["## Constants of the training", "", _CONSTANTS, "", *head, *rows, ""]


def _usual(value: float | None) -> str:
    return "–" if value is None else f"`{value:g}`"


_FROM_REGISTRY = "<!-- Generated from rlpanel/metrics by `make docs`; edit the declarations instead. -->"
#: Inputs of metrics that are not fields of a line, as the fields that they are taken from.
_NEEDS = {
    "weight": "`advantages` or `advantage`",
    "response_key": "`response`",
    "response_chars": "`response`",
    "response_text": "`response`",
    "invalid_chars": "`response`",
    "length": "`response_tokens` or `response`",
    "ended": "`truncated` or `finish_reason`",
}
_READING = (
    "Each entry says what the number compares, what it is averaged over, and where it is not defined. "
    "These rules hold for all:",
    "",
    "- **Steps.** A step's mean and standard deviation (ddof 1) of a sample column are computed over "
    "samples: `reward` becomes `reward_mean` and `reward_std`, and `kl_k3_mean` of a step is the mean, "
    "over its samples, of their mean per token.",
    "- **Missing values.** NaN and infinities are left out, by all estimators alike; other samples are not "
    "affected. A token whose logprob is one of them, such as a token that vLLM could not score, is left out "
    "of what is computed from that logprob: means are over the sample's other tokens, in a step as well. A "
    "sum over fewer tokens would be too small, so it has no value. `unscored_logprobs`, "
    "`unscored_rollout_logprobs` and so on count these tokens. If another array of a sample has such a "
    "number at a token that counts, the sample has no value.",
    "- **Loss mask.** Tokens outside the loss mask do not count, except in the sum of token rewards. A "
    "mask of another length than the array is ignored, and a sample of which no token is in the loss "
    "has no value.",
    "- **Zeros.** Trainers without a critic fill its fields with 0. So values, returns, advantages of "
    "tokens, token rewards, and what is computed from them, do not exist in a run in which all of them "
    "are 0.",
    "- **Update.** If only one of `new_logprobs` and `old_logprobs` is logged, `logprobs` are the other"
    " one. The engine's logprobs (`rollout_logprobs`) are neither: without one of the two, a run has no"
    " numbers of an update.",
    "- **Derived.** Samples with `values` and `token_rewards` but no `returns` get returns by GAE, and "
    "advantages if none are logged.",
    "- **Names.** `kl_k1_mean` and `kl_k1_sum` are other names of `log_ratio_mean` and `log_ratio_sum`.",
    "",
    "The formulas use these symbols:",
    "",
    r"- $R_i$ is the reward of sample $i$, $n$ the number of samples, $T_i$ the tokens of the response.",
    r"- $g$ is a group of $n_g$ samples, of which $c_g$ pass; $|g|$ is the number of groups of the step, "
    r"$\bar{R}_g$ the mean reward, and $\sigma_g$ the standard deviation (ddof 1). "
    r"$\bar{R}_k$ is the mean of rank $k$.",
    r"- $\pi$ is the policy, $\pi_\mathrm{ref}$ the reference, $\mu$ the sampling engine; "
    r"$\pi_\mathrm{old}$ and $\pi_\mathrm{new}$ are the policy before and after the update. "
    r"$a_t$ is the sampled token.",
    r"- $d_t$ is the log-ratio, $w_t$ the ratio, $\rho_t$ the ratio of policy and engine, $H_t$ the entropy.",
    r"- $r_t$ is the token reward, $V_t$ the value, $G_t$ the return, $A_t$ the advantage, $\beta$ the "
    r"coefficient of the KL penalty, $\gamma$ the discount, $\lambda$ that of GAE, "
    r"$\epsilon$ the clip range.",
    r"- $\sum_t$ runs over the tokens in the loss: of a sample, or, for a step, of all its samples. $T$ is "
    r"their number, and $M$ the number of micro-batches $m$. $\mathrm{Var}$ is the variance "
    r"over them (ddof 0).",
    "- A condition in brackets is 1 where it holds, and 0 elsewhere.",
    "",
    "The estimators of the KL divergence are functions of the log-ratio of a sampled token. Exponents are "
    "limited to ±20, unless the entry says otherwise:",
    "",
    r"$$d = \log \pi(a) - \log \pi_\mathrm{ref}(a), \quad k_1 = d, "
    r"\quad k_2 = \frac{d^2}{2}, \quad k_3 = e^{-d} - 1 + d$$",
)
_LOGGED = (
    "Columns of the sample that the trainer logs, or that are counted when a line is read. Every other "
    "number of a line, such as `rewards/<name>`, is a column, too: as logged, and in a step averaged "
    "over the samples that have it."
)
_CONSTANTS = (
    "A log's rows lack the coefficients that some formulas need. They are taken from the run's `run.json`, "
    "which rlpanel's recorder writes, or else from settings (`RLPANEL_KL_COEF` and so on). Otherwise they "
    "are estimated from the rows and shown with their fit. If a default is used, the board says so."
)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
