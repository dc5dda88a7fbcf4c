"""A rule on the logprobs of a teacher: tokens that it did not score, or another tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings
from rlpanel.findings.engine.signal import RowBatch, mark, signal

#: Share of a sample's tokens with a teacher's logprob of exactly 0 that no model gives.
_ZEROS = 0.02
#: Mean KL to the teacher in nats per token that no teacher with the policy's tokenizer has, while the policy
#: itself is sure of its tokens: its mean surprisal is below this.
_FAR, _SURE = 4.0, 2.0


@signal("teacher_zeros", "teacher_zero_mean")
def _zeros(rows: RowBatch) -> np.ndarray:
    share = rows.number("teacher_zero_mean")
    return mark(share > _ZEROS, np.isfinite(share))


@signal("teacher_far", "teacher_kl_mean")
def _far(rows: RowBatch) -> np.ndarray:
    kl, surprisal = rows.number("teacher_kl_mean"), rows.number("surprisal_mean")
    return mark((kl > _FAR) & (surprisal < _SURE), np.isfinite(kl) & np.isfinite(surprisal))


@rule("Teacher did not score the tokens", "change_z")
def teacher_scores(context: RuleContext) -> Iterator[Finding]:
    """In half of the samples the teacher's logprobs cannot be those of the sampled tokens.

    They are exactly 0 for more than 2% of the tokens; or the mean KL to the teacher is above 4 nats per token
    though the policy's mean surprisal is below 2. Or the share of such samples rises by 30 points.
    """
    for which, verb, column, advice in (
        (
            _zeros,
            "have a teacher's logprob of exactly 0 for more than 2% of their tokens",
            "teacher_zero_mean",
            "Trainers log 0 for tokens that the teacher did not score, such as those of the chat template: "
            "mask them, because they count as certain.",
        ),
        (
            _far,
            "are nearly impossible for the teacher, though the policy is sure of them",
            "teacher_kl_mean",
            "Check that teacher and policy have one tokenizer and chat template, and that the logprob of "
            "position t belongs to token t.",
        ),
    ):
        yield from share_findings(
            context,
            ShareRule(
                signal=which,
                verb=verb,
                noun="such samples",
                of="of the samples",
                rise=0.3,
                limit=0.5,
                limit_steps=2,
                column=column,
                where=f"{column} > {_ZEROS if which is _zeros else _FAR}",
                sort=f"-{column}",
                color=column.removesuffix("_mean"),
                tab="tokens",
                advice=advice,
            ),
            which.name,
        )
