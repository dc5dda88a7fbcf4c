"""Rules on logprobs of trainer, engine, reference and teacher: mismatch, shift, tokens without a score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import at_place, compared, number, since, span
from rlpanel.findings.engine.change_finding import finding_of
from rlpanel.findings.engine.change_tests import beyond
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings
from rlpanel.findings.engine.signal import RowBatch, mark, signal

#: Gain of correlation by a shift of one token that does not arise by chance.
_SHIFTED = 0.4
#: Larger gaps count as this in the test.
_MAX_GAP = 2.0
#: Share of a sample's tokens with a teacher's logprob of exactly 0 that no model gives.
_ZEROS = 0.02
#: Mean KL to the teacher in nats per token that no teacher with the policy's tokenizer has, while the policy
#: itself is sure of its tokens: its mean surprisal is below this.
_FAR, _SURE = 4.0, 2.0


@signal("engine_gap", "engine_log_ratio_mean", kind="level")
def _gap(rows: RowBatch) -> np.ndarray:
    with np.errstate(all="ignore"):
        gap = rows.number("_engine_gap_sum") / rows.number("engine_log_ratio_count")
    # A few tokens have a huge exponential: they must not hide the others in the standard error.
    return np.minimum(gap, _MAX_GAP)


@signal("engine_shift", "engine_shift")
def _engine_shift(rows: RowBatch) -> np.ndarray:
    shift = rows.number("engine_shift")
    return mark(shift > _SHIFTED, np.isfinite(shift))


@signal("ref_shift", "ref_shift")
def _reference_shift(rows: RowBatch) -> np.ndarray:
    shift = rows.number("ref_shift")
    return mark(shift > _SHIFTED, np.isfinite(shift))


@rule("Engine mismatch", "engine_mismatch")
def engine(context: RuleContext) -> Iterator[Finding]:
    """The mean of exp|trainer logprob − engine logprob| is above this, by three standard errors."""
    limit = context.thresholds.engine_mismatch
    change = beyond(context, _gap, limit, least=1)
    if change is None:
        return
    mismatch = context.series("engine_mismatch")
    whole = mismatch if mismatch is not None and not change.place else change.values
    factor = number(float(np.nanmedian(whole[change.mask])))
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, trainer and sampling engine{at_place(change)} disagree on the "
        f"probability of a token by a mean factor of {factor}"
        f"{compared(change.before, number(change.before))}.",
        harmful=int(change.mask[-3:].sum()) == min(3, len(change.mask)),
        column="engine_mismatch",
        evidence=[
            f"Mean of exp|difference of logprobs|: up to {number(float(np.nanmax(whole)))} in "
            f"{span(context.steps, change.mask)}; 1 means equal, the limit is {limit:g}.",
        ],
        advice="Compare precision, kernels and weight synchronisation of engine and trainer"
        f"{' on this rank' if change.place.rank is not None else ''}.",
        sort="-engine_log_ratio_mean",
        color="engine_log_ratio",
        tab="tokens",
    )


@rule("Shifted logprobs", "change_z")
def shifted_logprobs(context: RuleContext) -> Iterator[Finding]:
    """In half of the samples two logprob arrays correlate more with a shift by one token, by 0.4.

    Or the share of such samples rises by 30 points, by a test of two windows of steps.
    """
    for which, other, test in (
        (_engine_shift, "the engine's logprobs", "engine_log_ratio"),
        (_reference_shift, "the reference's logprobs", "log_ratio"),
    ):
        yield from share_findings(
            context,
            ShareRule(
                signal=which,
                verb=f"have {other} shifted by one token against the trainer's",
                noun="shifted samples",
                of="of the samples",
                rise=0.3,
                limit=0.5,
                limit_steps=2,
                column=f"{test}_mean",
                where=f"{which.name} > {_SHIFTED}",
                sort=f"-{which.name}",
                color=test,
                tab="tokens",
                advice="Logprobs of position t must belong to token t: check the slice [:-1] or [1:].",
            ),
            which.name,
        )


@signal("teacher_zeros", "teacher_zero_mean")
def _teacher_zeros(rows: RowBatch) -> np.ndarray:
    share = rows.number("teacher_zero_mean")
    return mark(share > _ZEROS, np.isfinite(share))


@signal("teacher_far", "teacher_kl_mean")
def _teacher_far(rows: RowBatch) -> np.ndarray:
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
            _teacher_zeros,
            "have a teacher's logprob of exactly 0 for more than 2% of their tokens",
            "teacher_zero_mean",
            "Trainers log 0 for tokens that the teacher did not score, such as those of the chat template: "
            "mask them, because they count as certain.",
        ),
        (
            _teacher_far,
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
                where=f"{column} > {_ZEROS if which is _teacher_zeros else _FAR}",
                sort=f"-{column}",
                color=column.removesuffix("_mean"),
                tab="tokens",
                advice=advice,
            ),
            which.name,
        )
