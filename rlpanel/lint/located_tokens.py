"""Finds the tokens of each message of a response, and joins tokens of any encoding to their running text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from rlpanel.sources.records.messages import Message
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.chat_templates import continued_turns
from rlpanel.texts.display_text import decode, detect

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
