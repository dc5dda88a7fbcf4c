"""Lint rules on the loss mask, on turns and on what counts in the loss."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rlpanel.findings.engine.signal import RowBatch, mark
from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import DETAILED, SPECIAL, LintSamples, MessageTokens, prompt_ids
from rlpanel.sources.records.record_types import Record
from rlpanel.store.snapshot.remarks import field_faults
from rlpanel.texts.prompt_parts import ENDS, PADS

_PART = "masks and turns"
_MESSAGES = "messages beside response_tokens and loss_mask: the messages' texts must be in the tokens"
#: Length from which on a mask with one token out is not a response of one or two tokens.
_MIN_LENGTH = 4


@lint_rule(
    "Arrays are as long as the tokens",
    _PART,
    "response_tokens|response_token_ids|logprobs",
    otherwise="token arrays, such as loss_mask and logprobs",
    scope="steps",
)
def array_length(rows: RowBatch) -> Marks:
    """An array of the sample has another length than its tokens, so that the array was left out."""
    faults = [f for f in field_faults(rows.view.snapshot, rows.rows) if "not as many values" in f.text]
    has_tokens = np.isfinite(rows.logged("response_tokens")) | np.isfinite(rows.logged("trajectory_tokens"))
    failed, details = np.zeros(len(rows), bool), {}
    for fault in faults:
        hit = np.isin(rows.rows, fault.rows)
        failed |= hit
        for at in np.flatnonzero(hit)[:DETAILED].tolist():
            details.setdefault(at, fault.text)
    return Marks(mark(failed, has_tokens | failed), details)


@lint_rule(
    "Something is trained in each sample", _PART, "loss_mask", otherwise="loss_mask of training samples"
)
def something_trained(batch: LintSamples) -> Marks:
    """No token of a training sample is in the loss mask, though it was not truncated.

    Trainers leave truncated samples out on purpose, and so does a logged ``sample_loss_mask`` of 0.
    """
    found = batch.aligned("loss_mask")
    if not found:
        return Marks(np.full(len(batch), np.nan))
    dropped = np.array([record.extra.get("sample_loss_mask") in (0, 0.0) for record in batch.records])
    meant = batch.columns["trained"] & (batch.columns["ended"] != 0) & ~dropped
    trained = meant[found.samples]
    nothing = found.number(found.values[0] > 0) == 0
    return found.all_marks(nothing, trained, lambda at: f"none of {found.counts[at]:,} tokens is in the loss")


@lint_rule(
    "Tokens of tools and environment are outside the loss",
    _PART,
    "messages",
    "response_tokens",
    "loss_mask",
    otherwise=_MESSAGES,
)
def context_untrained(batch: LintSamples) -> Marks:
    """Two tokens or more inside a message of a tool, user or environment are in the loss mask.

    One token at its border is not enough: that is a shifted mask.
    """
    return _of_messages(batch, by_policy=False)


@lint_rule(
    "The policy's tokens are in the loss",
    _PART,
    "messages",
    "response_tokens",
    "loss_mask",
    otherwise=f"{_MESSAGES}; and if half of the samples leave out the policy's tokens, this is a choice",
    most=0.5,
)
def policy_trained(batch: LintSamples) -> Marks:
    """Half of the tokens inside a message of the policy are outside the loss mask, and others are in it."""
    return _of_messages(batch, by_policy=True)


def _of_messages(batch: LintSamples, *, by_policy: bool) -> Marks:
    values, details = np.full(len(batch), np.nan), {}
    for at, found in enumerate(batch.located):
        messages = (found.policy if by_policy else found.context) if found is not None else []
        if found is None or not messages or not found.mask.any():
            continue
        wrong = next((each for each in messages if _is_wrong(each, found.mask)), None)
        values[at] = wrong is not None
        if wrong is not None and len(details) < DETAILED:
            inside = found.mask[wrong.start : wrong.stop]
            count = int((inside != by_policy).sum())
            place = "outside" if by_policy else "in"
            details[at] = (
                f"{count:,} of {len(inside):,} tokens of a message of the {wrong.role} are {place} the loss, "
                f"from token {wrong.start:,}"
            )
    return Marks(values, details)


def _is_wrong(message: MessageTokens, mask: np.ndarray) -> bool:
    inside = mask[message.start : message.stop]
    wrong = int((inside != message.by_policy).sum())
    # A border token on the wrong side is a shift, which has a rule of its own.
    least = len(inside) / 2 if message.by_policy else min(2, len(inside))
    return wrong >= max(least, 1)


@lint_rule(
    "The mask is not shifted",
    _PART,
    "response_tokens|response_token_ids",
    "loss_mask",
    otherwise=f"{_MESSAGES}; and if only the end token is outside the loss, this may be a choice",
)
def mask_in_place(batch: LintSamples) -> Marks:
    """Moved by one token, the mask fits the messages, and as logged it does not.

    In a response of the policy alone: only the first token is outside the mask. If it is only the last token,
    and no white space, padding or second end token, the mask may be one token early or by choice.
    """
    values, details, unclear = np.full(len(batch), np.nan), {}, 0
    for at, record in enumerate(batch.records):
        loss, located = record.arrays.get("loss_mask"), batch.located[at]
        if loss is None or not len(loss):
            continue
        shift = 0
        if located is not None and located.policy and located.context:
            if wrong := located.wrong(0):
                best = min((1, -1), key=located.wrong)
                shift = best if located.wrong(best) < wrong / 2 else 0
        elif len(loss) < _MIN_LENGTH or not loss.any() or (loss[1:-1] == 0).any():
            if not (loss > 0).all():
                continue  # zeros inside may be another's tokens
        elif loss[0] > 0 and loss[-1] == 0 and not _is_filler(record.tokens or ()):
            unclear += 1
            continue
        else:
            shift = 1 if loss[0] == 0 and loss[-1] > 0 else 0
        values[at] = shift != 0
        if shift and len(details) < DETAILED:
            details[at] = f"the mask is one token too {'late' if shift > 0 else 'early'}"
    return Marks(values, details, unclear=unclear)


def _is_filler(tokens: Sequence[str]) -> bool:
    """Return whether the last token is white space or padding, which is rightly outside the loss."""
    last = tokens[-1].strip("ĠĊ▁ \t\r\n") if tokens else "?"
    return not last or last in PADS or (last in ENDS and [*tokens[-2:]] == [tokens[-1]] * 2)


@lint_rule(
    "Rewards are on tokens in the loss",
    _PART,
    "token_rewards",
    "loss_mask",
    otherwise="token_rewards and loss_mask of equal length",
)
def reward_in_loss(batch: LintSamples) -> Marks:
    """A token outside the loss mask has a reward that is not 0, so that the reward is lost."""
    found = batch.aligned("token_rewards", "loss_mask")
    if not found:
        return Marks(np.full(len(batch), np.nan))
    rewards, loss = found.values
    bad = (np.abs(rewards) > 1e-8) & (loss == 0)
    return found.marks_of_tokens(bad, "{count} rewards are outside the loss; first token {token}: {value}")


@lint_rule(
    "Padding is outside the loss",
    _PART,
    "response_tokens",
    otherwise="response_tokens with their special tokens",
)
def padding_untrained(batch: LintSamples) -> Marks:
    """A pad token, or an end token after another end token at the response's end, is in the loss.

    Without a loss mask all tokens are.
    """
    pads = frozenset((*PADS, batch.facts.pad_token)) - {""}

    def check(record: Record) -> str | None:
        tokens, loss = record.tokens, record.arrays.get("loss_mask")
        if not tokens or (loss is not None and len(loss) != len(tokens)):
            return None
        end = len(tokens)
        while end > 1 and tokens[end - 1] == tokens[end - 2] and tokens[end - 1] in ENDS:
            end -= 1
        padding = [*range(end, len(tokens))]
        if pads.intersection(tokens):
            padding = [at for at, token in enumerate(tokens) if token in pads or at >= end]
        trained = [at for at in padding if loss is None or loss[at] > 0]
        return f"{len(trained):,} tokens {tokens[trained[0]]} are in the loss" if trained else ""

    return batch.each(check)


_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_SPACE = re.compile(r"\s+")


@lint_rule(
    "A turn's ids go on in the next turn",
    _PART,
    "episode",
    "prompt_token_ids",
    "response_token_ids",
    otherwise="episode, prompt, prompt_token_ids and response_token_ids of each turn, one sample per turn; "
    "where the ids do not go on, the prompt shows whether the text does",
)
def turn_is_prefix(batch: LintSamples) -> Marks:
    """The next sample of the episode has the same text before it in other token ids: it was tokenised again.

    Turns whose text differs are dropped reasoning or compaction, which have rules of their own.
    """
    return _of_turns(batch, "retokenised")


@lint_rule(
    "Reasoning stays in the next turn",
    _PART,
    "episode",
    "prompt|prompt_token_ids",
    "response|response_token_ids",
    otherwise="episode, prompt and response of each turn; if it is in half of the turns, it is by choice",
    most=0.5,
)
def reasoning_kept(batch: LintSamples) -> Marks:
    """The prompt of the episode's next sample has the earlier text without its ``<think>`` parts."""
    return _of_turns(batch, "reasoning dropped")


@lint_rule(
    "Earlier turns stay in the next turn",
    _PART,
    "episode",
    "prompt|prompt_token_ids",
    "response|response_token_ids",
    otherwise="episode, prompt and response of each turn; if it is in half of the turns, it is by choice",
    most=0.5,
)
def turn_kept(batch: LintSamples) -> Marks:
    """The prompt of the episode's next sample does not begin with the earlier prompt: a compaction."""
    return _of_turns(batch, "compaction")


def _of_turns(batch: LintSamples, kind: str) -> Marks:
    values, details, unclear = np.full(len(batch), np.nan), {}, 0
    episode = batch.columns["episode"]
    for at in np.flatnonzero((np.diff(episode) == 0) & (episode[1:] >= 0)).tolist():
        first, second = batch.records[at], batch.records[at + 1]
        if any(first.labels.get(name) != second.labels.get(name) for name in ("agent", "trajectory")):
            continue
        found = _kind_of(batch, at)
        unclear += found == "ids differ"
        if found in (None, "ids differ") or (
            kind == "retokenised" and found in ("text", "reasoning dropped", "compaction")
        ):
            continue
        values[at + 1] = found == kind
        if found == kind and len(details) < DETAILED:
            details[at + 1] = f"{kind} after the sample before it in its episode"
    return Marks(values, details, unclear=unclear)


def _kind_of(batch: LintSamples, at: int) -> str | None:
    """Return how the next sample goes on from that at a position; None if it is not known."""
    first, second = batch.records[at], batch.records[at + 1]
    ids, later = _ids(first), prompt_ids(second)
    has_ids = ids is not None and later is not None
    if ids is not None and later is not None and later[: len(ids)] == ids:
        return "kept"
    before = first.texts.get("prompt") or batch.decoded_prompts[at]
    after = second.texts.get("prompt") or batch.decoded_prompts[at + 1]
    response = _response(batch, first)
    if not before or not after or response is None:
        return "ids differ" if has_ids else None
    texts = [_words(text) for text in (before, f"{before}{response}", after)]
    if texts[2].startswith(texts[1]):
        return "retokenised" if has_ids else "text"
    thoughtless = [_words(_THOUGHT.sub("", text)) for text in (f"{before}{response}", after)]
    if thoughtless[0] != texts[1] and thoughtless[1].startswith(thoughtless[0]):
        return "reasoning dropped"
    return "text" if texts[2].startswith(texts[0]) else "compaction"


def _response(batch: LintSamples, record: Record) -> str | None:
    """Return the text of a response, decoded if only its ids are logged; None if it is not known."""
    decode, ids = batch.facts.decode, record.arrays.get("response_token_ids")
    if (text := record.texts.get("response")) or ids is None or not len(ids):
        return text or ""
    return decode(ids.astype(np.int64).tolist()) if decode is not None and np.isfinite(ids).all() else None


def _ids(record: Record) -> list[int] | None:
    prompt, response = prompt_ids(record), record.arrays.get("response_token_ids")
    if prompt is None or response is None or not np.isfinite(response).all():
        return None
    return [*prompt, *response.astype(np.int64).tolist()]


def _words(text: str) -> str:
    return _SPACE.sub("", SPECIAL.sub("", text))
