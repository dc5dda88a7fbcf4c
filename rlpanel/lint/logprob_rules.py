"""Lint rules on logprobs of policy and teacher: impossible values, and copied or shifted arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import SPECIAL, LintSamples
from rlpanel.metrics.engine.ragged import UNSCORED

# -- logprob rules -------------------------------------------------------------------------------------
# Lint rules on logprobs: values that cannot be, copied and shifted arrays, another temperature.


_PART = "logprobs"
_ANY = "logprobs|rollout_logprobs|old_logprobs|ref_logprobs|new_logprobs"
_ENGINE = "rollout_logprobs (the engine's) beside logprobs (the trainer's)"
#: A logprob above this is not the rounding of 0.
_ABOVE = 1e-3
#: A logprob that stands for −∞ where a format has no number for it.
_INFINITE = -9999.0
#: Fewest tokens of a constant, of a copied, and of a shifted array.
_FEW, _SHIFT_TOKENS = 8, 16
#: Least distance of two arrays in place, and factor by which a shift brings them closer.
_APART, _CLOSER = 0.02, 2.0
#: Steps after which a policy that trains differs from its reference.
_STEPS = 50
#: Fewest tokens, least correlation, and tolerance of the ratio of spreads, of an estimated temperature.
_TOKENS, _CORRELATED, _RATIO = 512, 0.9, 1.07


def _nothing(batch: LintSamples) -> Marks:
    return Marks(np.full(len(batch), np.nan))


def _worst(batch: LintSamples, check: Callable[[str], Marks]) -> Marks:
    """Return the marks of all arrays of logprobs together: a sample fails if one of its arrays does."""
    values, details = np.full(len(batch), np.nan), {}
    for name in UNSCORED:
        if name in batch.fields:
            found = check(name)
            values = np.fmax(values, found.values)
            details |= {at: f"{name}: {text}" for at, text in found.details.items() if at not in details}
    return Marks(values, details)


@lint_rule("Logprobs are at most 0", _PART, _ANY, otherwise="logprobs of the sampled tokens")
def logprob_negative(batch: LintSamples) -> Marks:
    """A logprob is above 0.001: a probability above 1, so it is another number, such as a logit."""
    return _worst(batch, partial(_above, batch))


def _above(batch: LintSamples, name: str) -> Marks:
    found = batch.aligned(name)
    if not found:
        return _nothing(batch)
    with np.errstate(invalid="ignore"):
        bad = found.values[0] > _ABOVE
    bad &= found.trained
    return found.marks_of_tokens(bad, "{count} above 0; first token {token}")


@lint_rule("Sampled tokens have a finite logprob", _PART, _ANY, otherwise="logprobs of the sampled tokens")
def logprob_finite(batch: LintSamples) -> Marks:
    """A sampled token in the loss has the logprob −∞: the model that scored it could not have sampled it.

    −9999 is one, too: vLLM's server writes it for −∞.
    """
    return _worst(batch, partial(_infinite, batch))


def _infinite(batch: LintSamples, name: str) -> Marks:
    found = batch.aligned(name)
    if not found:
        return _nothing(batch)
    with np.errstate(invalid="ignore"):
        bad = found.values[0] <= _INFINITE
    if bad.any():
        bad &= found.trained
    return found.marks_of_tokens(bad, "{count} are −∞; first token {token}")


@lint_rule(
    "Logprobs vary", _PART, _ANY, otherwise=f"logprobs of responses of {_FEW} tokens or more in the loss"
)
def logprob_varies(batch: LintSamples) -> Marks:
    """All logprobs of 8 tokens or more in the loss are the same number, such as 0 for missing ones."""
    return _worst(batch, partial(_constant, batch))


def _constant(batch: LintSamples, name: str) -> Marks:
    found = batch.aligned(name)
    if not found:
        return _nothing(batch)
    with np.errstate(invalid="ignore"):
        spread = found.spread(found.values[0], found.trained)
    enough = found.trained_counts >= _FEW
    return found.all_marks(spread == 0, enough, lambda at: "all are the same number")


def shifted_marks(batch: LintSamples, other: str) -> Marks:
    """Return the marks of samples whose two arrays are much closer after a shift by one token."""
    found = batch.aligned("logprobs", other, least=_SHIFT_TOKENS)
    if not found:
        return _nothing(batch)
    x, y = found.values
    used = found.trained
    size = np.maximum(found.trained_counts, 1)
    with np.errstate(invalid="ignore"):
        place = np.add.reduceat(np.abs((x - y) * used), found.starts) / size
        defined = np.isfinite(place) & (size >= _SHIFT_TOKENS)
        if not (place > _APART).any():  # nothing is to be explained by a shift
            return found.all_marks(np.zeros(len(place), bool), defined)
        late, early = np.zeros(len(x)), np.zeros(len(x))
        late[1:], early[1:] = (x[:-1] - y[1:]) * used[:-1], (x[1:] - y[:-1]) * used[1:]
        # The first pair of a sample is its own and another sample's token.
        late[found.starts] = early[found.starts] = 0.0
        shifted = [np.add.reduceat(np.abs(each), found.starts) / size for each in (late, early)]
    best = np.fmin(*shifted)
    failed = (place > _APART) & (best < place / _CLOSER)
    return found.all_marks(
        failed,
        defined,
        lambda at: (
            f"logprobs and {other} differ by {place[at]:.3g} per token, and by {best[at]:.3g} one token "
            f"{'later' if shifted[0][at] <= shifted[1][at] else 'earlier'}"
        ),
    )


@lint_rule(
    "Engine and trainer score the same positions", _PART, "logprobs", "rollout_logprobs", otherwise=_ENGINE
)
def engine_in_place(batch: LintSamples) -> Marks:
    """The trainer's and the engine's logprobs are twice as close after a shift by one token than in place.

    By the mean absolute difference of 16 tokens in the loss or more, which must exceed 0.02 in place. A
    prompt's last logprob that slipped into the response does this.
    """
    return shifted_marks(batch, "rollout_logprobs")


@lint_rule(
    "Policy and reference score the same positions",
    _PART,
    "logprobs",
    "ref_logprobs",
    otherwise="ref_logprobs beside logprobs",
)
def reference_in_place(batch: LintSamples) -> Marks:
    """The policy's and the reference's logprobs are twice as close after a shift by one token than in place.

    By the mean absolute difference of 16 tokens in the loss or more, which must exceed 0.02 in place.
    """
    return shifted_marks(batch, "ref_logprobs")


def _equal(batch: LintSamples, first: str, second: str, text: str, *, defined: bool = True) -> Marks:
    found = batch.aligned(first, second, least=_FEW)
    if not found or not defined:
        return _nothing(batch)
    one, other = found.values
    differs = found.number(one != other)
    varied = found.spread(one, np.ones(len(one), bool)) > 0
    return found.all_marks(differs == 0, varied, lambda at: text)


@lint_rule("Engine and trainer scored on their own", _PART, "logprobs", "rollout_logprobs", otherwise=_ENGINE)
def engine_not_copied(batch: LintSamples) -> Marks:
    """The engine's and the trainer's logprobs are equal to the last bit in all of 8 tokens or more."""
    return _equal(batch, "logprobs", "rollout_logprobs", "all tokens are equal to the bit: one is a copy")


@lint_rule(
    "The policy differs from its reference",
    _PART,
    "logprobs",
    "ref_logprobs",
    otherwise=f"ref_logprobs beside logprobs, of steps after the run's first {_STEPS}",
)
def policy_moves(batch: LintSamples) -> Marks:
    """After 50 steps of training, policy and reference are equal to the last bit in 8 tokens or more."""
    late = batch.step - batch.facts.first_step >= _STEPS
    text = "policy and reference are equal to the bit: a policy that does not train, or a reference that does"
    return _equal(batch, "logprobs", "ref_logprobs", text, defined=late)


@lint_rule(
    "Engine and trainer use one temperature",
    _PART,
    "logprobs",
    "rollout_logprobs",
    otherwise=f"{_ENGINE}, of {_TOKENS} tokens or more per step",
)
def one_temperature(batch: LintSamples) -> Marks:
    """The engine's logprobs spread more or less than the trainer's, by 7 % beyond what their noise explains.

    Over the tokens of up to 256 samples of a step with correlation r ≥ 0.9, σ(engine) ÷ σ(trainer) lies
    outside r ÷ 1.07 to 1.07 ÷ r. The temperature is estimated by σ(trainer) ÷ σ(engine).
    """
    found = batch.aligned("logprobs", "rollout_logprobs")
    if not found:
        return _nothing(batch)
    trainer, engine = found.values
    with np.errstate(invalid="ignore", divide="ignore"):
        used = found.trained & np.isfinite(trainer) & np.isfinite(engine)
        if not used.all():
            trainer, engine = trainer[used], engine[used]
        if len(trainer) < _TOKENS:
            return _nothing(batch)
        spreads = trainer.std(), engine.std()
        r = float(((trainer - trainer.mean()) * (engine - engine.mean())).mean() / (spreads[0] * spreads[1]))
        ratio = float(spreads[1] / spreads[0])
    every = np.ones(len(found.samples), bool)
    if not r >= _CORRELATED:
        return _nothing(batch)
    differs = ratio > _RATIO / r or ratio < r / _RATIO
    text = f"σ(engine) ÷ σ(trainer) = {ratio:.2f} at r = {r:.3f}: about {1 / ratio:.2f} times the temperature"
    return found.all_marks(every & differs, every, lambda at: text)


# -- teacher rules -------------------------------------------------------------------------------------
# Lint rules on the teacher of on-policy distillation: it scored these tokens, with the policy's tokenizer.
#
# Trainers that cannot score a token, such as one of the chat template, log 0 or one constant for it (rllm PR
# 356, slime 2085); then the loss pulls the policy to a distribution that no teacher has.


_TEACHER = "teacher_logprobs beside logprobs, one for each token"
#: Share of the tokens in the loss that a teacher may hold for certain.
_CERTAIN = 0.02
#: Fewest tokens of the template that are compared, and fewest tokens of a sample whose mean is.
_MARKS, _TEACHER_TOKENS = 3, 16
#: Mean KL in nats per token that no teacher with the policy's tokenizer has while the policy's own mean
#: surprisal is below the second: a token that the policy holds likely is not one in e⁴ for a trained teacher.
_FAR, _SURE = 4.0, 2.0


@lint_rule("The teacher scored the tokens", _PART, "teacher_logprobs", otherwise=_TEACHER)
def teacher_scored(batch: LintSamples) -> Marks:
    """The teacher's logprobs are exactly 0 for more than 2 % of the tokens in the loss.

    Or they are one constant for all of 3 special tokens or more, such as those of the chat template, while
    they differ for the other tokens.
    """
    found = batch.aligned("teacher_logprobs")
    if not found:
        return Marks(np.full(len(batch), np.nan))
    teacher, size = found.values[0], found.number(found.trained)
    zeros = found.number((teacher == 0) & found.trained)
    # One token that the teacher holds for certain is no fault, however short the response.
    failed = (zeros > _CERTAIN * size) & (zeros >= 2)
    texts = {
        at: f"{zeros[at]:,} of {size[at]:,} tokens in the loss are 0"
        for at in np.flatnonzero(failed).tolist()
    }
    for at in np.flatnonzero(~failed & (size > 0)).tolist():
        tokens = batch.records[int(found.samples[at])].tokens
        start, count = int(found.starts[at]), int(found.counts[at])
        if not tokens or len(tokens) != count:
            continue
        values, used = teacher[start : start + count], found.trained[start : start + count]
        marks = [i for i, text in enumerate(tokens) if used[i] and "<" in text and SPECIAL.fullmatch(text)]
        others = np.delete(values, marks)
        if len(marks) >= _MARKS and len(set(values[marks].tolist())) == 1 and len(set(others.tolist())) > 1:
            failed[at] = True
            texts[at] = f"all {len(marks)} special tokens have the teacher's logprob {values[marks[0]]:.4g}"
    return found.all_marks(failed, size > 0, lambda at: texts[at])


@lint_rule(
    "Teacher and policy have one tokenizer",
    _PART,
    "logprobs",
    "teacher_logprobs",
    otherwise=f"{_TEACHER}, of {_TEACHER_TOKENS} tokens or more in the loss that the policy is sure of",
)
def teacher_tokenizer(batch: LintSamples) -> Marks:
    """The mean KL to the teacher is above 4 nats per token, while the policy's mean surprisal is below 2.

    Of 16 tokens in the loss or more. Ids of another tokenizer are other words to the teacher, so it holds
    nearly all of them impossible.
    """
    found = batch.aligned("logprobs", "teacher_logprobs", least=_TEACHER_TOKENS)
    if not found:
        return Marks(np.full(len(batch), np.nan))
    policy, teacher = found.values
    used = found.trained & np.isfinite(policy) & np.isfinite(teacher)
    size = found.number(used)
    with np.errstate(all="ignore"):
        surprisal = -np.add.reduceat(np.where(used, policy, 0.0), found.starts) / size
        gap = np.add.reduceat(np.where(used, policy - teacher, 0.0), found.starts) / size
    failed = (gap > _FAR) & (surprisal < _SURE)
    return found.all_marks(
        failed,
        (size >= _TEACHER_TOKENS) & (surprisal < _SURE),
        lambda at: f"mean KL {gap[at]:.3g} nats at a surprisal of {surprisal[at]:.2g}",
    )


@lint_rule(
    "Policy and teacher score the same positions",
    _PART,
    "logprobs",
    "teacher_logprobs",
    otherwise=_TEACHER,
)
def teacher_in_place(batch: LintSamples) -> Marks:
    """The policy's and the teacher's logprobs are twice as close after a shift by one token than in place.

    By the mean absolute difference of 16 tokens in the loss or more, which must exceed 0.02 in place.
    """
    return shifted_marks(batch, "teacher_logprobs")
