"""How tokens read: pieces of a vocabulary become text, each token keeping a cell of its own.

Logs hold tokens in three spellings. *Plain* pieces come from ``decode`` and are shown as they are.
*Byte-level* pieces (GPT-2, Llama 3, Qwen) spell each byte as a letter, so that a space is ``Ġ`` and 国
is ``åĽ½``. *SentencePiece* writes a space as ``▁`` and a byte outside its vocabulary as ``<0xE4>``. In
the last two a character may be spread over several tokens: it is shown at the token that completes it,
and the tokens before it keep an empty cell.

Nothing here makes HTML; the browser shows these texts through ``textContent``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Literal

import numpy as np

Encoding = Literal["plain", "byte-level", "sentencepiece"]

#: Share of pieces that may break an encoding's rule (added tokens are written literally).
TOLERANCE = 0.1

REPLACEMENT = "\ufffd"

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(
    r"<[|｜][^<>]{1,80}[|｜]>|</?s>|<(?:pad|unk|bos|eos|sep|cls|mask|eod|eot|eom)>"
    r"|<(?:start|end)_of_(?:turn|text|image)>|<extra_id_\d+>|<unused\d+>"
    r"|\[(?:PAD|UNK|CLS|SEP|MASK|BOS|EOS|gMASK)\]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))  # printable to Python, yet nothing to see
# Invisible, or able to reorder what stands around them. Joiners are left inside a piece, where emoji
# and Persian words need them, and marked when they are all there is.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]|^[\u200c\u200d\ufe00-\ufe0f]+$"
)


class TokenKind(IntEnum):
    """What a token's cell holds; the browser draws each kind in its own way."""

    PLAIN = 0
    EMPTY = 1  #: the vocabulary's piece is the empty string
    FRAGMENT = 2  #: bytes of a character that a later token completes
    CONTROL = 3  #: holds characters that are invisible; marks stand for them
    SPECIAL = 4  #: ``<|eos|>`` and its like
    PAD = 5


@dataclass(frozen=True)
class TokenText:
    """Tokens, ready to be shown.

    Attributes
    ----------
    texts : list of str, length T
        What stands in each cell; joined, they are the running text.
    kinds : ndarray of uint8, shape (T,)
        A `TokenKind` each.
    encoding : str
        How the log spells tokens.
    replaced : int
        Number of U+FFFD shown: bytes that are no character.
    """

    texts: list[str]
    kinds: np.ndarray
    encoding: Encoding
    replaced: int


def decode(tokens: Sequence[str], pad_token: str = "") -> TokenText:
    """Text for every token.

    Parameters
    ----------
    tokens : sequence of str, length T
        As logged, in any of the three spellings; which one is decided by the whole list.
    pad_token : str
        Tokens equal to it become ``TokenKind.PAD``; empty for none.

    Returns
    -------
    TokenText
    """
    if _SURROGATE.search("".join(tokens)):
        tokens = [_SURROGATE.sub(REPLACEMENT, token) for token in tokens]
    encoding = detect(tokens)
    texts = list(tokens)
    if encoding != "plain":
        texts = _join_bytes(tokens, _from_byte_level if encoding == "byte-level" else _from_sentencepiece)
    kinds = np.array(
        [TokenKind.SPECIAL if is_special(t) else TokenKind.PLAIN for t in tokens], dtype=np.uint8
    )
    _find_fragments(tokens, texts, encoding == "plain", kinds)
    _mark_hidden(texts, kinds)
    if pad_token:
        kinds[[i for i, token in enumerate(tokens) if token == pad_token]] = TokenKind.PAD
    return TokenText(texts, kinds, encoding, sum(text.count(REPLACEMENT) for text in texts))


def is_special(token: str) -> bool:
    """Whether the token is one that a chat template or tokenizer adds (``<|eos|>``, ``</s>``)."""
    return token[:1] in ("<", "[") and _SPECIAL.fullmatch(token) is not None


def detect(tokens: Sequence[str]) -> Encoding:
    """Which spelling the whole list is in.

    A literal space rules both byte spellings out, since in them it never stands as itself; a share of
    `TOLERANCE` is allowed for tokens that were added to the vocabulary as they are.

    Parameters
    ----------
    tokens : sequence of str

    Returns
    -------
    str
    """
    pieces = [token for token in tokens if token and not is_special(token)]
    allowed = TOLERANCE * len(pieces)
    marked = any(p.startswith("▁") or _BYTE_PIECE.fullmatch(p) for p in pieces)
    if marked and sum(" " in p for p in pieces) <= allowed:
        return "sentencepiece"
    if any(not p.isascii() for p in pieces):
        letters = _letters()
        if sum(not letters.issuperset(p) for p in pieces) <= allowed and _reads_as_bytes(pieces):
            return "byte-level"
    return "plain"


def reveal(text: str) -> str:
    """``text`` with each invisible character spelled out as Python would, line breaks and tabs kept."""
    return _SURROGATE.sub(REPLACEMENT, _HIDDEN.sub(_escape, text))


def spell(text: str, encoding: Encoding) -> str:
    """How a vocabulary of this encoding usually writes an ASCII text."""
    if encoding == "byte-level":
        return text.replace(" ", "Ġ").replace("\n", "Ċ")
    return text.replace(" ", "▁") if encoding == "sentencepiece" else text


def _reads_as_bytes(pieces: Sequence[str]) -> bool:
    """Whether byte letters are sure: a spelled space or line break, or bytes that make characters.

    ``café`` is spelled in byte letters too, but as bytes it is broken, so it stays plain.
    """
    joined = "".join(pieces)
    if "Ġ" in joined or "Ċ" in joined:
        return True
    text = b"".join(map(_from_byte_level, pieces)).decode("utf-8", "replace")
    broken = text.count(REPLACEMENT)
    characters = sum(char > "\x7f" for char in text) - broken
    return characters > 2 * broken


def _join_bytes(tokens: Sequence[str], to_bytes: Callable[[str], bytes]) -> list[str]:
    """Decode across token borders; a character goes to the token that brings its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts: list[str] = []
    for token in tokens:
        if is_special(token):
            if texts:
                texts[-1] += decoder.decode(b"", final=True)
            texts.append(token)
        else:
            texts.append(decoder.decode(to_bytes(token)))
    if texts:
        texts[-1] += decoder.decode(b"", final=True)
    return texts


def _find_fragments(tokens: Sequence[str], shown: Sequence[str], plain: bool, kinds: np.ndarray) -> None:
    """Tell an empty cell that waits for a character from a piece that is empty.

    ``decode`` writes both as ``''``; what follows tells them apart, as only characters outside ASCII
    are spread over tokens.
    """
    completes = False
    for i in range(len(shown) - 1, -1, -1):
        if shown[i]:
            completes = plain and shown[i][0] > "\x7f"
        else:
            kinds[i] = TokenKind.FRAGMENT if tokens[i] or completes else TokenKind.EMPTY


def _mark_hidden(texts: list[str], kinds: np.ndarray) -> None:
    """Put a visible mark where a character would not be seen."""
    for i, text in enumerate(texts):
        suspect = not text.isprintable() or text[:1] in _SELECTORS
        if suspect and _HIDDEN.search(text):
            texts[i] = reveal(text)
            kinds[i] = TokenKind.CONTROL


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


@cache
def _byte_letters() -> dict[str, int]:
    """The letter for each byte, as GPT-2's ``bytes_to_unicode`` chose them."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(others)}


@cache
def _letters() -> frozenset[str]:
    return frozenset(_byte_letters())


def _from_byte_level(token: str) -> bytes:
    try:
        return bytes(map(_byte_letters().__getitem__, token))
    except KeyError:  # an added token, written literally
        return token.encode("utf-8", "replace")


def _from_sentencepiece(token: str) -> bytes:
    match = _BYTE_PIECE.fullmatch(token)
    if match:
        return bytes([int(match[1], 16)])
    return token.replace("▁", " ").encode("utf-8", "replace")


def read_piece(token: str, encoding: Encoding) -> str:
    """A single token as text; as logged where it is only part of a character."""
    if encoding == "plain" or is_special(token):
        return reveal(token)
    try:
        to_bytes = _from_byte_level if encoding == "byte-level" else _from_sentencepiece
        return reveal(to_bytes(token).decode("utf-8"))
    except UnicodeDecodeError:
        return reveal(token)
