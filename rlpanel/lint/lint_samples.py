"""Samples of one step as lint rules read them, with the tokens of each message located."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from rlpanel.lint.lint_rule import Marks
from rlpanel.metrics.engine.ragged import Ragged, ragged_fields, sample_starts, token_mask
from rlpanel.sources.records.messages import Message
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.chat_templates import continued_turns
from rlpanel.texts.display_text import decode, detect

# -- located tokens ------------------------------------------------------------------------------------
# Finds the tokens of each message of a response, and joins tokens of any encoding to their running text.


#: Special tokens, which logged texts may leave out; the last lines are placeholders of images, videos and
#: sounds (Gemma 3, LLaVA, Molmo, InternVL, Janus, Pixtral; those of Qwen-VL have bars).
SPECIAL = re.compile(
    r"<[|｜][^<>\s]{1,80}[|｜]>|</?s>|<(?:pad|unk|bos|eos|sep|cls|mask|eod|eot|eom)>"
    r"|<(?:start|end)_of_turn>|\[(?:PAD|UNK|CLS|SEP|MASK|BOS|EOS|gMASK)\]"
    r"|<(?:start_of_|end_of_)?(?:image|video|audio)(?:_soft_token|_placeholder)?>"
    r"|<(?:low_res_)?im_(?:start|end|patch|col)>|</?img>|<IMG_CONTEXT>|<[be]oi>|\[IMG(?:_BREAK|_END)?\]"
)
_BYTE_PIECE = re.compile(r"((?:<0x[0-9A-Fa-f]{2}>)+)")
#: Characters of a message by which it is found, at least: shorter ones occur anywhere.
_MIN_CHARS = 6


def token_text(tokens: Sequence[str]) -> str:
    """Return the running text of tokens in any encoding; invalid bytes become U+FFFD."""
    joined = "".join(tokens)
    encoding = detect(tokens[:256])
    if encoding == "byte-level":
        parts = SPECIAL.split(joined)
        marks = SPECIAL.findall(joined)
        texts = [_from_letters(part) for part in parts]
        return "".join(text + mark for text, mark in zip(texts, [*marks, ""], strict=True))
    if encoding == "sentencepiece":
        parts = _BYTE_PIECE.split(joined.replace("▁", " "))
        return "".join(_from_pieces(part) if at % 2 else part for at, part in enumerate(parts))
    return joined


def _from_pieces(pieces: str) -> str:
    return bytes.fromhex(pieces.replace("<0x", "").replace(">", "")).decode("utf-8", "replace")


def _from_letters(text: str) -> str:
    return text.translate(_letters()).encode("latin-1", "replace").decode("utf-8", "replace")


@cache
def _letters() -> dict[int, int]:
    """Return the byte of each letter of byte-level tokens that is not its own byte."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return {256 + at: byte for at, byte in enumerate(byte for byte in range(256) if byte not in visible)}


def _turns(joined: str, messages: Sequence[Message]) -> list[tuple[str, int, int]]:
    """Return role, begin and end of each turn by the template's headers; empty if the messages have others.

    A policy may write headers itself, which do not begin turns of the conversation: those in its last message
    belong to it. Before that, the text of each message of others must be in its turn.
    """
    turns, last = continued_turns(joined), len(messages) - 1
    if len(turns) <= last or (len(turns) > last + 1 and messages[last]["role"] != "assistant"):
        return []
    found = []
    for at, message in enumerate(messages):
        turn, is_policy = turns[at], message["role"] == "assistant"
        finish = turns[-1].finish if at == last else turn.finish
        if (turn.role == "assistant") != is_policy:
            return []
        if not is_policy and message["content"].strip() not in joined[turn.begin : finish]:
            return []
        found.append((message["role"], turn.begin, finish))
    return found


def _texts(joined: str, messages: Sequence[Message]) -> list[tuple[str, int, int]]:
    """Return role, begin and end of each message whose whole text is found after the message before."""
    found, at = [], 0
    for message in messages:
        text = message["content"].strip()
        # A policy may write a turn's header itself, which is elsewhere in the tokens, too.
        usable = len(text) >= _MIN_CHARS and SPECIAL.search(text) is None
        place = joined.find(text, at) if usable else -1
        if place >= 0:
            at = place + len(text)
            found.append((message["role"], place, at))
    return found


@dataclass(frozen=True)
class MessageTokens:
    """The tokens inside one message: ``start`` to ``stop``, and whether the policy wrote it."""

    role: str
    start: int
    stop: int
    by_policy: bool


@dataclass(frozen=True)
class LocatedTokens:
    """Messages of a response that were found in its tokens.

    Attributes
    ----------
    messages : tuple of MessageTokens
        With the tokens that lie wholly inside; found by the template's headers, else by their texts.
    mask : ndarray of bool, shape (T,)
        The loss mask.
    tokens : sequence of str
    """

    messages: tuple[MessageTokens, ...]
    mask: np.ndarray
    tokens: Sequence[str]

    @classmethod
    def of(cls, record: Record) -> LocatedTokens | None:
        """Return the messages of a sample with tokens and a loss mask of their length; None without."""
        mask, tokens = record.arrays.get("loss_mask"), record.tokens
        if mask is None or not tokens or len(mask) != len(tokens) or record.prompt_messages < 0:
            return None
        messages = record.messages[record.prompt_messages :]
        if not messages:
            return None
        texts = list(tokens) if detect(tokens) == "plain" else decode(tokens).texts
        ends = np.array(list(accumulate(map(len, texts))))
        starts = ends - np.array(list(map(len, texts)))
        joined = "".join(texts)
        found = []
        for role, begin, finish in _turns(joined, messages) or _texts(joined, messages):
            inside = np.flatnonzero((starts >= begin) & (ends <= finish) & (ends > starts))
            if len(inside):
                found.append(MessageTokens(role, int(inside[0]), int(inside[-1]) + 1, role == "assistant"))
        return cls(tuple(found), mask > 0, tokens)

    @property
    def policy(self) -> list[MessageTokens]:
        """The messages of the policy."""
        return [message for message in self.messages if message.by_policy]

    @property
    def context(self) -> list[MessageTokens]:
        """The messages of tools, environments and users."""
        return [message for message in self.messages if not message.by_policy]

    def wrong(self, shift: int) -> int:
        """Return how many tokens inside messages are on the wrong side of the mask, moved by a shift."""
        count = 0
        for message in self.messages:
            at = np.arange(message.start, message.stop) + shift
            at = at[(at >= 0) & (at < len(self.mask))]
            count += int((self.mask[at] != message.by_policy).sum())
        return count


# -- lint samples --------------------------------------------------------------------------------------
# Samples of one step as the rules read them: token arrays of all of them at once, and their texts.


#: Samples that fail of which a rule says what is wrong, per call.
DETAILED = 10
#: Keys under which adapters keep the prompt's token ids.
_PROMPT_IDS = ("prompt_token_ids", "prompt_tokens")


@dataclass(frozen=True)
class LintFacts:
    """Facts of the run that rules use.

    Attributes
    ----------
    logged : mapping
        Content of ``run.json``.
    first_step : int
        First step of the run.
    pad_token : str
    decode : callable, optional
        Returns the text of token ids by the run's tokenizer; None without one.
    foreign_tokenizer : bool
        Whether tokens may have been decoded by another tokenizer than the run's.
    truths : dict of int to dict of int to str
        First ground truth of each group, by step and key of the group; rules add to it.
    """

    logged: Mapping[str, Any] = field(default_factory=dict)
    first_step: int = 0
    pad_token: str = ""
    decode: Callable[[Sequence[int]], str] | None = None
    foreign_tokenizer: bool = False
    truths: dict[int, dict[int, str]] = field(default_factory=dict)


class Aligned:
    """Token arrays of those samples that have all of some arrays, in equal length.

    Attributes
    ----------
    samples : ndarray of int, shape (M,)
        Positions of these samples.
    counts : ndarray of int, shape (M,)
        Number of tokens of each, at least 1.
    values : tuple of ndarray, shape (T₁ + … + T_M,)
        The arrays, concatenated.
    trained : ndarray of bool, shape (T₁ + … + T_M,)
        Mask of the tokens in the loss; all tokens of a sample without a loss mask.
    """

    def __init__(self, batch: LintSamples, names: Sequence[str], least: int) -> None:
        fields = [batch.fields.get(name) for name in names]
        present = [each for each in fields if each is not None]
        rows = np.zeros(len(batch), bool)
        if len(present) == len(names):
            rows = present[0].counts >= max(least, 1)
            for other in present[1:]:
                rows &= other.counts == present[0].counts
        self._size, self.samples = len(batch), np.flatnonzero(rows)
        self.counts = present[0].counts[rows] if len(self.samples) else np.empty(0, np.int64)
        self.values = tuple(each.values(rows) for each in present) if len(self.samples) else ()
        self._rows, self._mask = rows, batch.fields.get("loss_mask")

    def __bool__(self) -> bool:
        return len(self.samples) > 0

    @cached_property
    def starts(self) -> np.ndarray:
        """Position of each sample's first token."""
        return sample_starts(self.counts)

    @cached_property
    def trained(self) -> np.ndarray:
        """Mask of the tokens in the loss."""
        if self._mask is None:
            return np.ones(int(self.counts.sum()), bool)
        return token_mask(self._mask, self._rows, self.counts)

    @cached_property
    def trained_counts(self) -> np.ndarray:
        """Number of tokens of each sample that are in the loss, shape (M,)."""
        return self.number(self.trained)

    def number(self, tokens: np.ndarray) -> np.ndarray:
        """Return how many tokens of each sample are marked, shape (M,)."""
        if not tokens.any():
            return np.zeros(len(self.starts), np.int64)
        return np.add.reduceat(tokens, self.starts, dtype=np.int64)

    def spread(self, values: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the difference of the largest and the smallest value of the marked tokens, shape (M,)."""
        every = tokens.all()
        low = np.minimum.reduceat(values if every else np.where(tokens, values, np.inf), self.starts)
        high = np.maximum.reduceat(values if every else np.where(tokens, values, -np.inf), self.starts)
        return np.asarray(high - low)

    def all_marks(
        self, failed: np.ndarray, defined: np.ndarray, say: Callable[[int], str] | None = None
    ) -> Marks:
        """Return the marks of all samples of the batch from those of these samples, shape (M,)."""
        values = np.full(self._size, np.nan)
        values[self.samples] = np.where(defined, failed, np.nan)
        bad = np.flatnonzero(failed & defined)[:DETAILED] if say is not None else ()
        return Marks(values, {int(self.samples[at]): say(int(at)) for at in bad} if say is not None else {})

    def marks_of_tokens(self, bad: np.ndarray, text: str, defined: np.ndarray | None = None) -> Marks:
        """Return marks: a sample fails if one of its tokens is bad; the text names number and first one.

        Parameters
        ----------
        bad : ndarray of bool, shape (T₁ + … + T_M,)
        text : str
            With the placeholders ``{count}``, ``{token}``, and ``{value}`` for the first array's value there.
        defined : ndarray of bool, shape (M,), optional
        """
        number = self.number(bad)

        def say(at: int) -> str:
            start = int(self.starts[at])
            first = int(np.argmax(bad[start : start + int(self.counts[at])]))
            value = f"{float(self.values[0][start + first]):.6g}".replace("-", "−")
            return text.format(count=f"{int(number[at]):,}", token=f"{first:,}", value=value)

        return self.all_marks(number > 0, np.ones(len(number), bool) if defined is None else defined, say)


class LintSamples:
    """Some samples of one step, read in full.

    Attributes
    ----------
    records : sequence of Record
        Rows of one episode are next to each other, in their order.
    step : int
    facts : LintFacts
    columns : mapping of str to ndarray
        Columns ``episode`` (code, -1 without), ``group`` (key in the step), ``ended``, and ``trained`` (False
        for evaluations), shape (N,).
    """

    def __init__(
        self, records: Sequence[Record], step: int, facts: LintFacts, columns: Mapping[str, np.ndarray]
    ) -> None:
        self.records, self.step, self.facts, self.columns = records, step, facts, columns
        self._aligned: dict[tuple[tuple[str, ...], int], Aligned] = {}

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def fields(self) -> dict[str, Ragged]:
        """Token arrays by name."""
        arrays = [record.arrays for record in self.records]
        return ragged_fields(arrays) if any(arrays) else {}

    def aligned(self, *names: str, least: int = 1) -> Aligned:
        """Return the samples that have all of these arrays, in equal length of at least ``least`` tokens."""
        known = self._aligned.get((names, least))
        if known is None:  # several rules ask for the same arrays
            known = self._aligned[names, least] = Aligned(self, names, least)
        return known

    def each(self, check: Callable[[Record], str | None]) -> Marks:
        """Return the marks of a check of single samples: None is not checkable, an empty text passes."""
        values, details = np.full(len(self), np.nan), {}
        for at, record in enumerate(self.records):
            found = check(record)
            if found is not None:
                values[at] = bool(found)
                if found and len(details) < DETAILED:
                    details[at] = found
        return Marks(values, details)

    @cached_property
    def located(self) -> list[LocatedTokens | None]:
        """Tokens of each message of the response, of samples that have messages of others or a mask."""
        return [LocatedTokens.of(record) for record in self.records]

    @cached_property
    def decoded_prompts(self) -> list[str | None]:
        """Text of each prompt's ids by the run's tokenizer, with special tokens; None without one of them."""
        decode = self.facts.decode
        if decode is None:
            return [None] * len(self)
        ids = map(prompt_ids, self.records)
        return [None if each is None or not _are_ids(each) else decode(each) for each in ids]

    @cached_property
    def prompts(self) -> list[str | None]:
        """Each prompt as the policy got it: its ids decoded, else as logged; None without both."""
        logged = (record.texts.get("prompt") or None for record in self.records)
        return [own or other for own, other in zip(self.decoded_prompts, logged, strict=True)]

    def each_prompt(self, check: Callable[[str], str]) -> Marks:
        """Return the marks of a check of single prompts: an empty text passes."""
        found = iter(self.prompts)
        return self.each(lambda _: None if (prompt := next(found)) is None else check(prompt))

    def count_fields(self) -> dict[str, int]:
        """Return the number of samples that have each field."""
        counts: dict[str, int] = {}
        for record in self.records:
            for name in fields_of(record):
                counts[name] = counts.get(name, 0) + 1
        return counts


def fields_of(record: Record) -> set[str]:
    """Return the names of the fields that a sample has, as rules name what they need."""
    found = {*record.arrays, *(name for name, text in record.texts.items() if text)}
    # The number `response_tokens` is the count of ids, too: only texts make tokens.
    numbers = {name for name, value in record.numbers.items() if value == value} - {"response_tokens"}
    found |= numbers | set(record.labels)
    if record.tokens:
        found.add("response_tokens")
    if record.messages:
        found.add("messages")
    if prompt_ids(record) is not None:
        found.add("prompt_token_ids")
    return found


def prompt_ids(record: Record) -> list[int] | None:
    """Return the token ids of the prompt, if they are logged."""
    found = next((record.extra[key] for key in _PROMPT_IDS if key in record.extra), None)
    is_ids = isinstance(found, list) and bool(found) and all(isinstance(each, int) for each in found[:4])
    return found if is_ids else None


def _are_ids(values: Sequence[Any]) -> bool:
    return all(type(each) is int and each >= 0 for each in values)


def response_messages(record: Record) -> Sequence[Mapping[str, Any]]:
    """Return the messages of the response; empty if it is not known which they are."""
    return record.messages[record.prompt_messages :] if record.prompt_messages >= 0 else ()
