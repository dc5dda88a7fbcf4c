"""Lint rules on tokens and text: ids, logged texts, templates, and tokens at the ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.lint.lint_samples import (
    DETAILED,
    SPECIAL,
    LintSamples,
    LocatedTokens,
    response_messages,
    token_text,
)
from rlpanel.metrics.engine.ragged import sample_starts
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.prompt_parts import PADS, unpadded
from rlpanel.texts.shorten import shorten

_PART = "tokens and text"
_REPLACEMENT = "�"
#: Characters of a text that a remark quotes.
_QUOTED = 40


def _quote(text: str) -> str:
    return repr(shorten(text, _QUOTED))


#: Tags that trainers cut from a message when they read calls and reasoning, even if these are not whole.
_TAGS = re.compile(r"</?(?:tool_calls?|think|thinking|answer|function)>|\s+")


def _plain(text: str) -> str:
    """Return a text without special tokens, and without white space at its ends."""
    return (SPECIAL.sub("", text) if "<" in text or "[" in text else text).strip()


def _untagged(text: str) -> str:
    """Return a text without special tokens, tags and white space."""
    return _TAGS.sub("", SPECIAL.sub("", text))


def _difference(text: str, logged: str) -> str | None:
    """Return where two texts differ; None if they are the same but for bytes that are not valid."""
    if text == logged or logged in text or text in logged:
        return None
    if _REPLACEMENT in text or _REPLACEMENT in logged:
        shorter = min(text, logged, key=lambda each: len(each.replace(_REPLACEMENT, "")))
        longer = logged if shorter is text else text
        at = 0
        for piece in shorter.split(_REPLACEMENT):
            found = longer.find(piece, at) if piece else at
            if found < 0:
                break
            at = found + len(piece)
        else:
            return None
    at = next((i for i, (a, b) in enumerate(zip(text, logged, strict=False)) if a != b), 0)
    return f"{_quote(text[at:])} in the tokens, {_quote(logged[at:])} in the text, at character {at:,}"


@lint_rule(
    "Tokens are the logged text",
    _PART,
    "response_tokens|response_token_ids",
    otherwise="response beside response_tokens, or name the tokenizer of the ids with --tokenizer",
)
def tokens_are_text(batch: LintSamples) -> Marks:
    """The joined tokens, without special tokens, neither equal the logged response nor contain it.

    Ids are decoded by the run's tokenizer if there is one. If messages are logged, each text of the policy
    must be in the tokens.
    """
    decode = batch.facts.decode
    values, details = np.full(len(batch), np.nan), {}
    for at, record in enumerate(batch.records):
        ids = record.arrays.get("response_token_ids") if decode is not None else None
        logged = _logged_texts(record)
        if not logged:
            continue
        if ids is not None and np.isfinite(ids).all() and decode is not None:
            text = decode(ids.astype(np.int64).tolist())
        elif record.tokens:
            text = "".join(record.tokens)
            # Most logs have the texts of tokens, so that their encoding need not be found.
            text = text if text == logged[0] else token_text(record.tokens)
        else:
            continue
        if text == logged[0] and len(logged) == 1:
            values[at] = 0
            continue
        found = _mismatch(record, text, logged)
        values[at] = found is not None
        if found is not None and len(details) < DETAILED:
            details[at] = found
    return Marks(values, details)


def _mismatch(record: Record, text: str, logged: list[str]) -> str | None:
    """Return where the tokens' text differs from what is logged; None if it does not."""
    mask, tokens = record.arrays.get("loss_mask"), record.tokens
    others = mask is not None and not mask.all()
    plain = _untagged if record.messages else _plain
    joined = plain(text)
    found = next((each for part in logged if (each := _difference(joined, plain(part)))), None)
    # Tags may be special tokens of the tokenizer, which a trainer that decodes the response leaves out.
    if found is None or all(_difference(_untagged(text), _untagged(part)) is None for part in logged):
        return None
    if not others or mask is None:
        return found
    # With other writers among the tokens, trainers log the policy's text only, or the text of each message.
    if tokens and len(mask) == len(tokens):
        own = _plain(token_text([token for token, used in zip(tokens, mask > 0, strict=True) if used]))
        if all(_difference(own, _plain(part)) is None for part in logged):
            return None
    at = 0
    for line in (_untagged(line) for part in logged for line in part.splitlines()):
        at = joined_at + len(line) if (joined_at := _untagged(text).find(line, at)) >= 0 else -1
        if at < 0:
            return found
    return None


def _logged_texts(record: Record) -> list[str]:
    """Return the texts that the policy wrote, as logged beside the tokens."""
    if messages := response_messages(record):
        found = [m["content"] for m in messages if m["role"] == "assistant" and m["content"].strip()]
        return [] if any(m.get("tool_calls") for m in messages) and not found else found
    response = record.texts.get("response", "")
    return [response] if response.strip() else []


@lint_rule(
    "An id has one text",
    _PART,
    "response_token_ids",
    "response_tokens",
    otherwise="response_tokens and response_token_ids of equal length",
)
def id_has_one_text(batch: LintSamples) -> Marks:
    """One token id has two texts in the same sample, so ids and tokens are not from the same positions."""
    values, details = np.full(len(batch), np.nan), {}
    known: dict[int, tuple[np.ndarray, list[str]]] = {}
    for at, record in enumerate(batch.records):
        ids = record.arrays.get("response_token_ids")
        if ids is not None and record.tokens and len(ids) == len(record.tokens):
            known[at], values[at] = (ids, record.tokens), 0
    for at in _several_texts(known):
        numbers, tokens = known[at][0].tolist(), known[at][1]
        text_of = dict(zip(numbers, tokens, strict=True))
        # An id with two texts keeps the last one, so that the others differ from it.
        if list(map(text_of.__getitem__, numbers)) == tokens:
            continue
        pairs = set(zip(numbers, tokens, strict=True))
        # Sentencepiece drops the space of the first token if tokens are decoded one by one. A token with a
        # part of a character has another text in each character that it completes, but never one in ASCII.
        texts = {(each, text.lstrip(" ▁")) for each, text in pairs if _REPLACEMENT not in text}
        counts = Counter(each for each, _ in texts)
        readable = {each for each, text in texts if text and text.isascii()}
        twice = next((each for each, count in counts.items() if count > 1 and each in readable), None)
        if twice is not None:
            values[at] = 1
            if len(details) < DETAILED:
                both = sorted(text for each, text in texts if each == twice)[:2]
                details[at] = f"id {twice:.0f} is {_quote(both[0])} and {_quote(both[1])}"
    return Marks(values, details)


def _several_texts(known: Mapping[int, tuple[np.ndarray, Sequence[str]]]) -> list[int]:
    """Return those of the samples in which an id has another text than elsewhere in the batch."""
    if not known:
        return []
    texts = np.array([*chain.from_iterable(tokens for _, tokens in known.values())], object)
    ids, places = np.unique(np.concatenate([each for each, _ in known.values()]), return_inverse=True)
    text_of = np.empty(len(ids), object)
    text_of[places] = texts
    starts = sample_starts(np.array([len(each) for each, _ in known.values()]))
    differs = np.logical_or.reduceat(text_of[places] != texts, starts)
    return [at for at, is_other in zip(known, differs.tolist(), strict=True) if is_other]


#: Share of the finished responses whose last id is an end token's.
_MAX_ENDS = 0.75
_END = re.compile(rf"(?:{SPECIAL.pattern})\s*\Z")
_BOS = re.compile(
    r"(<s>|<bos>|<BOS_TOKEN>|\[BOS\]|<\|(?:begin_of_text|startoftext|bos)\|>|<[|｜]begin[▁_]of[▁_]sentence[|｜]>)"
    r"\s*\1"
)


@lint_rule(
    "The prompt begins with one BOS token",
    _PART,
    "prompt|prompt_token_ids",
    otherwise="prompt with its special tokens, or name the tokenizer of prompt_token_ids with --tokenizer",
)
def one_bos(batch: LintSamples) -> Marks:
    """The prompt, without padding, begins with two BOS tokens (``<s>``, ``<|begin_of_text|>``, …).

    The prompt is that of its ids if the run's tokenizer decodes them, else the logged text.
    """

    def check(prompt: str) -> str:
        head = prompt[:20_000]
        start = unpadded(head)[0] if head.startswith(PADS) else 0
        found = _BOS.match(head, start)
        return f"the prompt begins with {found[1]} twice" if found else ""

    return batch.each_prompt(check)


@lint_rule(
    "A finished response ends in an end token",
    _PART,
    "response_tokens|response_token_ids",
    "truncated|finish_reason",
    otherwise="the end token among the response's tokens: fewer than half of the finished responses have one",
    most=0.5,
)
def has_eos(batch: LintSamples) -> Marks:
    """The last trained token of a finished response is not an end token, while most others end in one.

    An end token is a special one, or the id with which three quarters of the batch's finished responses end.
    """
    ended = batch.columns["ended"] == 1
    last: list[tuple[float, str] | None] = []
    for record in batch.records:
        ids, tokens = record.arrays.get("response_token_ids"), record.tokens
        mask = record.arrays.get("loss_mask")
        size = len(tokens) if tokens else len(ids) if ids is not None else 0
        trained = np.flatnonzero(mask) if mask is not None and len(mask) == size else None
        at = size - 1 if trained is None else int(trained[-1]) if len(trained) else -1
        if at < 0:
            last.append(None)
        else:
            number = float(ids[at]) if ids is not None and len(ids) == size else np.nan
            last.append((number, tokens[at] if tokens else ""))
    known = [each for each, is_end in zip(last, ended, strict=True) if each is not None and is_end]
    usual = Counter(number for number, _ in known).most_common(1)
    end_id = usual[0][0] if usual and usual[0][1] >= _MAX_ENDS * len(known) and len(known) > 1 else None
    values, details = np.full(len(batch), np.nan), {}
    for at, each in enumerate(last):
        if each is None or not ended[at]:
            continue
        number, text = each
        is_end = _END.search(text) is not None or (end_id is not None and number == end_id)
        values[at] = not is_end
        if not is_end and len(details) < DETAILED:
            shown = _quote(text) if text else f"id {number:.0f}"
            details[at] = f"it finished, but its last trained token is {shown}"
    return Marks(values, details)


#: A header of a turn right after another header.
_TWICE = re.compile(
    r"<\|im_start\|>\w{1,20}\n<\|im_start\|>"
    r"|<\|start_header_id\|>\w{1,20}<\|end_header_id\|>\s{0,3}(?:<\|begin_of_text\|>)?<\|start_header_id\|>"
    r"|\[INST\]\s{0,3}(?:<s>)?\s{0,3}\[INST\]"
    r"|<start_of_turn>\w{1,20}\n(?:<bos>)?<start_of_turn>"
    r"|<[|｜](?:User|user)[|｜]>\s{0,3}<[|｜](?:User|user)[|｜]>"
)
#: Tokens that begin a turn.
_MARKS = tuple(
    {"<|im_start|>", "<|start_header_id|>", "[INST]", "<start_of_turn>", "<|START_OF_TURN_TOKEN|>"}
    | {"<|start|>", "<|start_of_role|>", "<｜User｜>", "<|user|>", "<|User|>"}
)


@lint_rule(
    "The chat template is applied once",
    _PART,
    "prompt|prompt_token_ids",
    otherwise="prompt as the policy gets it, or name the tokenizer of prompt_token_ids with --tokenizer",
)
def template_once(batch: LintSamples) -> Marks:
    """In the prompt a turn's header follows on another header: the template was applied to its own output."""

    def check(prompt: str) -> str:
        found = _TWICE.search(prompt) if "<" in prompt or "[" in prompt else None
        return f"{_quote(found[0])} at character {found.start():,} of the prompt" if found else ""

    return batch.each_prompt(check)


@lint_rule(
    "The chat template is applied",
    _PART,
    "prompt|prompt_token_ids",
    otherwise="prompt as the policy gets it, or --tokenizer: "
    "half of the prompts or more have no chat template",
    most=0.5,
)
def template_applied(batch: LintSamples) -> Marks:
    """The prompt has no header of a chat template, while most prompts of the run have one."""

    def check(prompt: str) -> str:
        has_header = any(mark in prompt for mark in _MARKS)
        return "" if has_header else f"no header of a chat template in {_quote(prompt)}"

    return batch.each_prompt(check)


def _trained_header(located: LocatedTokens) -> str:
    """Return which header of a message of others is in the loss; empty if none is."""
    for context in located.context:
        for at in range(max(context.start - _HEADER, 0), context.start):
            if located.tokens[at] in _MARKS and located.mask[at]:
                return f"{located.tokens[at]} before a message of the {context.role} is in the loss"
    return ""


#: Roles whose messages the policy did not write: it may write any token itself.
_OTHERS = frozenset({"system", "developer", "user", "tool"})
#: Tokens between a turn's header and its text, at most.
_HEADER = 4


@lint_rule(
    "Special tokens are in their roles",
    _PART,
    "messages",
    otherwise="messages, and for their headers response_tokens and loss_mask",
)
def special_in_role(batch: LintSamples) -> Marks:
    """A message that the policy did not write contains a turn's header, or its own header is in the loss."""
    values, details = np.full(len(batch), np.nan), {}
    for at, record in enumerate(batch.records):
        others = [message for message in record.messages if message["role"] in _OTHERS]
        if not others:
            continue
        found = ""
        for message in others:
            text = message["content"]
            # A message that begins with a header was logged as the template renders it.
            if (
                "<" in text
                and not text.startswith(_MARKS)
                and (mark := next((each for each in _MARKS if each in text), None))
            ):
                found = f"{mark} in the text of a message of the {message['role']}"
        located = batch.located[at]
        found = found or (_trained_header(located) if located is not None else "")
        values[at] = bool(found)
        if found and len(details) < DETAILED:
            details[at] = found
    return Marks(values, details)


@lint_rule(
    "The prompt's ids are the logged prompt",
    _PART,
    "prompt_token_ids",
    "prompt",
    otherwise="name the run's tokenizer: rlpanel lint RUN --tokenizer tokenizer.json",
)
def prompt_ids_are_text(batch: LintSamples) -> Marks:
    """The decoded ids of the prompt, without special tokens, neither equal the prompt nor contain it."""
    texts = iter(batch.decoded_prompts)

    def check(record: Record) -> str | None:
        decoded, prompt = next(texts), record.texts.get("prompt")
        if decoded is None or not prompt or record.messages:
            return None
        return _difference(_plain(decoded), _plain(prompt)) or ""

    return batch.each(check)
