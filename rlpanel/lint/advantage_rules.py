"""Lint rules on advantages: sign, sum and scale as the run's algorithm has them, and equal tokens.

An algorithm that ``run.json`` names is held to its formula. Without a name, the formula that fits most groups
is taken, and groups that it does not fit fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpanel.findings.engine.signal import SIGNALS, RowBatch, mark
from rlpanel.findings.rules import advantages  # noqa: F401  registers the signal
from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import LintSamples
from rlpanel.metrics.engine.trainer_names import algorithm_of
from rlpanel.sources.config.config_values import plain_name

_PART = "advantages"
_NEEDS = ("advantage|advantages", "reward", "group|prompt")
_OTHERWISE = "advantage, reward and group of whole groups whose rewards differ, of a trainer without a critic"
#: Tolerance of a formula, in the largest advantage of the group.
_CLOSE = 0.02
#: Constants in the denominator are up to this; with it, small deviations scale by less.
_EPSILON = 1e-3
#: A deviation below this is rounding.
_ZERO = 1e-6
#: Advantages of equal rewards are the rounding of their mean, divided by the constant.
_ROUNDING = 5e-3
#: Share of the advantages' absolute sum that a sum of 0 may differ by.
_SUM = 0.01

_GROUP = ("std of the group, n − 1", "std of the group, n")
_BATCH = ("one std for the step",)
_MEAN = ("mean of the group",)
_LEAVE_OUT = ("mean of the others",)
_GLOBAL = ("mean and std of the step",)
#: Algorithm → formulas that it may use; of PPO and others with a critic none applies.
_FORMULAS: Mapping[str, tuple[str, ...]] = {
    "grpo": _GROUP,
    "dapo": _GROUP,
    "gspo": _GROUP,
    "dr_grpo": _MEAN,
    "drgrpo": _MEAN,
    "rloo": (*_LEAVE_OUT, *_BATCH),
    "reinforce++-baseline": _BATCH,
    "reinforce_plus_plus_baseline": _BATCH,
    "reinforce++": _GLOBAL,
    "reinforce_plus_plus": _GLOBAL,
}


def formulas_of(logged: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the formulas that the run's algorithm may use; empty if none is named that is known."""
    name = next((logged[key] for key in ("adv_estimator", "advantage_estimator") if logged.get(key)), None)
    algorithm = str(name).lower() if name else algorithm_of(logged)
    allowed = _FORMULAS.get(algorithm, ())
    scale = logged.get("scale_rewards", logged.get("norm_adv_by_std_in_grpo"))
    if allowed == _GROUP and (scale in (False, "none") or logged.get("loss_type") == "dr_grpo"):
        return _MEAN
    return _BATCH if allowed == _GROUP and scale == "batch" else allowed


def _sums_of(logged: Mapping[str, Any]) -> tuple[str, ...]:
    allowed = formulas_of(logged)
    return () if not allowed else ("step",) if allowed == _GLOBAL else ("group",)


class _Groups:
    """Rewards and advantages of rows whose whole group has both, of a trainer without a critic."""

    def __init__(self, rows: RowBatch) -> None:
        has = rows.view.snapshot.has_number
        column = "advantage" if has("advantage") else "token_advantage_mean"
        self.reward, self.advantage = rows.number("reward"), rows.number(column)
        known = np.isfinite(self.reward) & np.isfinite(self.advantage)
        usable = rows.view.grouped and has(column) and not has("value_mean")
        self.size = np.bincount(rows.group, rows.has_outcome.astype(float))
        have = np.bincount(rows.group, known.astype(float))
        self.whole = (have == self.size) & (self.size >= 2) if usable else np.zeros(len(self.size), bool)
        self.d = rows.less_group_mean(self.reward)
        self.square = rows.group_sums(self.d**2)
        self.known = known & self.whole[rows.group]

    def say(self, rows: RowBatch, values: np.ndarray, text: str) -> Marks:
        details = {
            int(at): f"{text}: advantage {self.advantage[at]:.4g} at reward {self.reward[at]:.4g}"
            for at in np.flatnonzero(values == 1)[:10]
        }
        return Marks(values, details)


@lint_rule("A higher reward has a higher advantage", _PART, *_NEEDS, otherwise=_OTHERWISE, scope="steps")
def advantage_sign(rows: RowBatch) -> Marks:
    """Rewards and advantages of the group have a negative covariance."""
    groups = _Groups(rows)
    signs = (
        SIGNALS["advantage_against_reward"].values(rows) if rows.view.grouped else np.full(len(rows), np.nan)
    )
    return groups.say(rows, np.where(groups.known, signs, np.nan), "the sign is wrong")


@lint_rule(
    "Advantages add up to 0",
    _PART,
    *_NEEDS,
    otherwise=f"{_OTHERWISE}; no sum is 0: name the algorithm in run.json",
    scope="steps",
    variants=_sums_of,
    most=0.5,
)
def advantage_sum(rows: RowBatch) -> dict[str, Marks]:
    """The advantages of a group, or of a step for REINFORCE++, do not add up to 0.

    Their sum exceeds 1 % of the sum of their absolute values. It is the group or the step, as the algorithm
    in ``run.json`` says, or what fits more samples.
    """
    groups, found = _Groups(rows), {}
    for name, key in (("group", rows.group), ("step", rows.position)):
        value = np.where(groups.known, groups.advantage, 0.0)
        total, size = np.bincount(key, value), np.bincount(key, np.abs(value))
        failed = (np.abs(total) > _SUM * size)[key]
        mean = size / np.maximum(np.bincount(key, groups.known.astype(float)), 1)
        marks = mark(failed & (mean > _ROUNDING)[key], groups.known)
        found[name] = groups.say(rows, marks, f"the sum of its {name} is {{}}".replace("{}", "not 0"))
    return found


@lint_rule(
    "Advantages follow the algorithm's formula",
    _PART,
    *_NEEDS,
    otherwise=f"{_OTHERWISE}; no formula fits: name the algorithm in run.json",
    scope="steps",
    variants=formulas_of,
    most=0.5,
)
def advantage_formula(rows: RowBatch) -> dict[str, Marks]:
    """An advantage differs from the formula by more than 2 % of the group's largest one.

    GRPO: (r − mean) ÷ std of the group. Dr. GRPO: r − mean. RLOO: r − mean of the others. REINFORCE++ with a
    baseline: (r − mean) ÷ one std for the step. REINFORCE++: (r − mean) ÷ std of the step. It is that of the
    algorithm in ``run.json``, or what fits most samples. Equal rewards give 0.
    """
    groups = _Groups(rows)
    n, d = groups.size[rows.group], groups.d
    with np.errstate(all="ignore"):
        spread = [np.sqrt(groups.square / np.maximum(groups.size - less, 1))[rows.group] for less in (1, 0)]
        expected = {
            _GROUP[0]: (d / spread[0], spread[0]),
            _GROUP[1]: (d / spread[1], spread[1]),
            _MEAN[0]: (d, None),
            _LEAVE_OUT[0]: (d * n / (n - 1), None),
            _BATCH[0]: (d * _step_slope(rows, groups, d), None),
            _GLOBAL[0]: (_step_line(rows, groups), None),
        }
        found = {}
        for name, (value, std) in expected.items():
            value = np.where(np.abs(d) <= _ZERO, 0.0, value) if name != _GLOBAL[0] else value
            size = np.zeros(len(groups.size))
            np.maximum.at(size, rows.group, np.where(groups.known, np.abs(value), 0.0))
            # With a constant in the denominator, a small deviation scales to less.
            slack = _CLOSE if std is None else _CLOSE + np.minimum(_EPSILON / np.maximum(std, _ZERO), 1.0)
            bad = np.abs(groups.advantage - value) > slack * size[rows.group] + _ROUNDING
            found[name] = groups.say(rows, mark(bad, groups.known), f"not (r − mean) by {name}")
    return found


def _step_slope(rows: RowBatch, groups: _Groups, d: np.ndarray) -> np.ndarray:
    """Return the factor between the distances from the group's mean and the advantages, one for each step.

    It is 1 ÷ std, so that it is not below 0.
    """
    product = np.where(groups.known, groups.advantage * d, 0.0)
    square = np.where(groups.known, d * d, 0.0)
    slope = np.bincount(rows.position, product) / np.bincount(rows.position, square)
    return np.asarray(np.abs(slope)[rows.position])


def _step_line(rows: RowBatch, groups: _Groups) -> np.ndarray:
    """Return the advantages by the mean and the deviation of the step's rewards."""
    position, known = rows.position, groups.known
    count = np.bincount(position, known.astype(float))
    mean = np.bincount(position, np.where(known, groups.reward, 0.0)) / count
    distance = groups.reward - mean[position]
    variance = np.bincount(position, np.where(known, distance**2, 0.0)) / count
    return np.asarray(distance / np.sqrt(variance)[position])


@lint_rule(
    "The tokens of a sample have one advantage",
    _PART,
    "advantages",
    otherwise="advantages of tokens; where half of the samples have several, as with a critic, this is right",
    most=0.5,
)
def advantage_constant(batch: LintSamples) -> Marks:
    """The advantages of the tokens in the loss differ within a sample, while most samples have one."""
    found = batch.aligned("advantages")
    if not found:
        return Marks(np.full(len(batch), np.nan))
    values = found.values[0]
    spread = found.spread(values, found.trained)
    several = found.number(found.trained) >= 2
    size = np.maximum.reduceat(np.abs(values), found.starts)
    failed = spread > 1e-5 * size + 1e-9
    return found.all_marks(
        failed, several, lambda at: f"advantages differ by {spread[at]:.4g} within the sample"
    )


#: How the loss averages, as trainers name it → exponent of a response's length in the weight of its tokens.
_AGGREGATIONS = {
    **dict.fromkeys(("grpo", "seq-mean-token-mean", "sequence-mean", "sequence"), -1),
    **dict.fromkeys(("dapo", "bnpo", "cispo", "token-mean", "token", "dr-grpo", "constant"), 0),
    **dict.fromkeys(("seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-sum-norm-global"), 0),
}
#: Settings with such a name: of verl and ROLL, of TRL and ms-swift, and of SkyRL.
_NAMED = ("loss_agg_mode", "loss_type", "loss_reduction")
#: Settings that are true if the loss is a mean over tokens: of slime, miles and Megatron, and of NeMo-RL.
_OVER_TOKENS = ("calculate_per_token_loss", "token_level_loss")
#: Settings of slime that replace it if they are true: a sum over tokens, and a mean over those of a prompt.
_TOKEN_SUM, _PER_PROMPT = "calculate_token_sum_loss", "calculate_per_prompt_loss"
#: Setting of open-instruct: ``token``, or the constant that the sum over tokens is divided by.
_DENOMINATOR = "loss_denominator"


def _aggregation(settings: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """Return how the loss averages, and the exponent of `_AGGREGATIONS`; None if no setting names it.

    The exponent is None if the mean is over the tokens of all responses to a prompt.
    """
    given: dict[str, Any] = {}
    for name, value in settings.items():
        if "critic" not in name:
            given.setdefault(plain_name(name), value)
    for key in _NAMED:
        name = str(given.get(key) or "").lower()
        if (exponent := _AGGREGATIONS.get(name.replace("_", "-"))) is not None:
            return name, exponent
    if given.get(_TOKEN_SUM) is True:
        return f"{_TOKEN_SUM} = True", 0
    if given.get(_PER_PROMPT) is True:
        return f"{_PER_PROMPT} = True", None
    for key in _OVER_TOKENS:
        if isinstance(found := given.get(key), bool):
            return f"{key} = {found}", 0 if found else -1
    found = given.get(_DENOMINATOR)
    return (f"{_DENOMINATOR} = {found}", 0) if found else None


@lint_rule(
    "Tokens weigh in the loss as the run says",
    _PART,
    "response_tokens|logprobs",
    otherwise="how the loss averages, in run.json or the trainer's configuration file: "
    "loss_type, loss_agg_mode, loss_reduction, calculate_per_token_loss, token_level_loss "
    "or loss_denominator",
    scope="steps",
    by_settings=True,
)
def loss_weights(rows: RowBatch, settings: Mapping[str, Any]) -> Marks:
    """It never fails: it says how the loss averages, and what a token of a long response weighs in it.

    With a mean over each sequence, a token weighs 1 ÷ length: long wrong answers are punished less per token.
    """
    found = _aggregation(settings)
    tokens = rows.logged("response_tokens")
    known = tokens > 0
    if found is None or not known.any():
        return Marks(np.full(len(rows), np.nan))
    short, long = (float(each) for each in np.quantile(tokens[known], [0.1, 0.9]))
    name, exponent = found
    remark = f"{name}: all tokens weigh the same, so long responses weigh more"
    if exponent is None:
        remark = f"{name}: all tokens of a prompt's responses weigh the same, and each prompt weighs the same"
    elif exponent:
        remark = (
            f"{name}: a token of a response of {long:,.0f} tokens weighs {short / long:.2g} of one of "
            f"{short:,.0f} tokens"
        )
    return Marks(mark(np.zeros(len(rows), bool), known), remark=remark)
