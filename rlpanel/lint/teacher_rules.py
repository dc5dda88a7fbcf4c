"""Lint rules on the teacher of on-policy distillation: it scored these tokens, with the policy's tokenizer.

Trainers that cannot score a token, such as one of the chat template, log 0 or one constant for it (rllm PR
356, slime 2085); then the loss pulls the policy to a distribution that no teacher has.
"""

from __future__ import annotations

import numpy as np

from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import LintSamples
from rlpanel.lint.located_tokens import SPECIAL
from rlpanel.lint.logprob_rules import shifted_marks

_PART = "logprobs"
_TEACHER = "teacher_logprobs beside logprobs, one for each token"
#: Share of the tokens in the loss that a teacher may hold for certain.
_CERTAIN = 0.02
#: Fewest tokens of the template that are compared, and fewest tokens of a sample whose mean is.
_MARKS, _TOKENS = 3, 16
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
    otherwise=f"{_TEACHER}, of {_TOKENS} tokens or more in the loss that the policy is sure of",
)
def teacher_tokenizer(batch: LintSamples) -> Marks:
    """The mean KL to the teacher is above 4 nats per token, while the policy's mean surprisal is below 2.

    Of 16 tokens in the loss or more. Ids of another tokenizer are other words to the teacher, so it holds
    nearly all of them impossible.
    """
    found = batch.aligned("logprobs", "teacher_logprobs", least=_TOKENS)
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
        (size >= _TOKENS) & (surprisal < _SURE),
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
