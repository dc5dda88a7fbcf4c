"""Decodes logged tokens into display texts, one text per token.

Logs contain tokens in three encodings. *Plain* tokens come from ``decode`` and are shown unchanged.
*Byte-level* tokens (GPT-2, Llama 3, Qwen) write each byte as a letter, so that a space is ``Ġ`` and 国
is ``åĽ½``. *SentencePiece* writes a space as ``▁`` and a byte outside its vocabulary as ``<0xE4>``. In
the last two, one character may span several tokens: it is shown at the token that completes it, and the
tokens before have an empty text.

The texts are not HTML; the browser inserts them through ``textContent``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Literal, get_args

import numpy as np

from rlpanel.texts.align_texts import REPLACEMENT, align_texts

Encoding = Literal["plain", "byte-level", "sentencepiece"]

#: Share of tokens that may violate an encoding's rule (added tokens are written literally).
TOLERANCE = 0.1

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(
    r"<[|｜][^<>]{1,80}[|｜]>|</?s>|<(?:pad|unk|bos|eos|sep|cls|mask|eod|eot|eom)>"
    r"|<(?:start|end)_of_(?:turn|text|image)>|<extra_id_\d+>|<unused\d+>"
    r"|\[(?:PAD|UNK|CLS|SEP|MASK|BOS|EOS|gMASK)\]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Variation selectors are printable in Python, but invisible.
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
# Characters that are invisible or reorder the text around them. Joiners inside a token are kept because
# emoji and Persian words need them; a token of joiners only is escaped.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]|^[\u200c\u200d\ufe00-\ufe0f]+$"
)


class TokenKind(IntEnum):
    """Kind of a token; the browser draws each kind differently."""

    PLAIN = 0
    EMPTY = 1  #: the token is the empty string
    FRAGMENT = 2  #: first bytes of a character that a later token completes
    CONTROL = 3  #: contains invisible characters, shown as escape sequences
    SPECIAL = 4  #: added by a template or tokenizer, such as ``<|eos|>``
    PAD = 5  #: equal to the pad token


@dataclass(frozen=True)
class TokenText:
    """Display texts of a list of tokens.

    Attributes
    ----------
    texts : list of str, length T
        Text of each token; joined, they are the running text.
    kinds : ndarray of uint8, shape (T,)
        `TokenKind` of each token.
    encoding : str
        Encoding of the logged tokens.
    replaced : int
        Number of U+FFFD in the texts, which stand for invalid UTF-8 bytes.
    """

    texts: list[str]
    kinds: np.ndarray
    encoding: Encoding
    replaced: int


def decode(
    tokens: Sequence[str],
    pad_token: str = "",
    response: str | None = None,
    loss_mask: np.ndarray | None = None,
) -> TokenText:
    """Decode every token into its display text.

    Parameters
    ----------
    tokens : sequence of str, length T
        As logged, in any of the three encodings; the whole list decides which one.
    pad_token : str
        Tokens equal to it become ``TokenKind.PAD``; empty for none.
    response : str, optional
        Text of all tokens. If the texts do not add up to it, they are aligned to it where possible.
    loss_mask : ndarray, shape (T,), optional
        0 for tokens that a tool or the environment wrote, which the response may leave out.

    Returns
    -------
    TokenText
    """
    if not tokens:
        return TokenText([], np.zeros(0, np.uint8), "plain", 0)
    if _SURROGATE.search("".join(tokens)):
        tokens = [_SURROGATE.sub(REPLACEMENT, token) for token in tokens]
    encoding = detect(tokens)
    texts = _texts(tokens, encoding)
    if response:
        encoding, texts = _as_in_response(tokens, encoding, texts, response, pad_token, loss_mask)
    kinds = np.array(
        [TokenKind.SPECIAL if is_special(t) else TokenKind.PLAIN for t in tokens], dtype=np.uint8
    )
    _mark_fragments(tokens, texts, encoding == "plain", kinds)
    _escape_hidden(texts, kinds)
    if pad_token:
        kinds[[i for i, token in enumerate(tokens) if token == pad_token]] = TokenKind.PAD
    return TokenText(texts, kinds, encoding, sum(text.count(REPLACEMENT) for text in texts))


def _texts(tokens: Sequence[str], encoding: Encoding) -> list[str]:
    if encoding == "plain":
        return list(tokens)
    return _join_bytes(tokens, _from_byte_level if encoding == "byte-level" else _from_sentencepiece)


def _as_in_response(
    tokens: Sequence[str],
    encoding: Encoding,
    texts: list[str],
    response: str,
    pad_token: str,
    loss_mask: np.ndarray | None,
) -> tuple[Encoding, list[str]]:
    """Return encoding and texts that add up to the response; those given if none do."""
    response = _SURROGATE.sub(REPLACEMENT, response)
    if "".join(texts) == response:
        return encoding, texts
    for other in get_args(Encoding):
        if other != encoding and "".join(other_texts := _texts(tokens, other)) == response:
            return other, other_texts
    added = np.array([is_special(token) or token == pad_token for token in tokens], bool)
    aligned = align_texts(texts, added.tolist(), response)
    if aligned is None and loss_mask is not None and len(loss_mask) == len(tokens):
        aligned = _align_written(texts, added, response, loss_mask != 0)
    return encoding, texts if aligned is None else aligned


def _align_written(
    texts: Sequence[str], added: np.ndarray, response: str, written: np.ndarray
) -> list[str] | None:
    """Align only the tokens that the policy wrote; the others keep their texts."""
    chosen: list[int] = np.flatnonzero(written).tolist()
    aligned = align_texts([texts[i] for i in chosen], added[chosen].tolist(), response)
    if aligned is None:
        return None
    merged = list(texts)
    for index, text in zip(chosen, aligned, strict=True):
        merged[index] = text
    return merged


def is_special(token: str) -> bool:
    """Return whether a chat template or tokenizer adds the token (``<|eos|>``, ``</s>``)."""
    return token[:1] in ("<", "[") and _SPECIAL.fullmatch(token) is not None


def detect(tokens: Sequence[str]) -> Encoding:
    """Detect the encoding of a list of tokens.

    A literal space excludes both byte encodings, which never contain one. Up to `TOLERANCE` of the tokens
    may violate this: tokens added to the vocabulary are written literally.

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


def escape_invisible(text: str) -> str:
    """Replace each invisible character by its Python escape sequence; line breaks and tabs are kept."""
    # Most texts have none. This is ten times as fast as the expressions, for megabytes of results.
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _SURROGATE.sub(REPLACEMENT, _HIDDEN.sub(_escape, text))


def spell(text: str, encoding: Encoding) -> str:
    """Return the token that a vocabulary of this encoding usually has for an ASCII text."""
    if encoding == "byte-level":
        return text.replace(" ", "Ġ").replace("\n", "Ċ")
    return text.replace(" ", "▁") if encoding == "sentencepiece" else text


def _reads_as_bytes(pieces: Sequence[str]) -> bool:
    """Return whether byte-level tokens are certain: an encoded space or line break, or valid UTF-8.

    ``café`` consists of byte-level letters too, but is invalid UTF-8 as bytes, so it is plain text.
    """
    joined = "".join(pieces)
    if "Ġ" in joined or "Ċ" in joined:
        return True
    text = b"".join(map(_from_byte_level, pieces)).decode("utf-8", "replace")
    broken = text.count(REPLACEMENT)
    characters = sum(char > "\x7f" for char in text) - broken
    return characters > 2 * broken


def _join_bytes(tokens: Sequence[str], to_bytes: Callable[[str], bytes]) -> list[str]:
    """Decode UTF-8 across tokens; a character belongs to the token with its last byte."""
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


def _mark_fragments(tokens: Sequence[str], texts: Sequence[str], plain: bool, kinds: np.ndarray) -> None:
    """Set the kind of tokens without text: fragment of a later character, or empty token.

    ``decode`` writes both as ``''``. The text that follows decides: only characters outside ASCII span
    several tokens.
    """
    completes = False
    for i in range(len(texts) - 1, -1, -1):
        if texts[i]:
            completes = plain and texts[i][0] > "\x7f"
        else:
            kinds[i] = TokenKind.FRAGMENT if tokens[i] or completes else TokenKind.EMPTY


def _escape_hidden(texts: list[str], kinds: np.ndarray) -> None:
    """Replace invisible characters by escape sequences, and mark their tokens."""
    for i, text in enumerate(texts):
        suspect = not text.isprintable() or text[:1] in _SELECTORS
        if suspect and _HIDDEN.search(text):
            texts[i] = escape_invisible(text)
            kinds[i] = TokenKind.CONTROL


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


@cache
def _byte_letters() -> dict[str, int]:
    """Return the byte of each byte-level letter, as in GPT-2's ``bytes_to_unicode``."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    invisible = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(invisible)}


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
    """Decode a single token; return it as logged if it is only part of a character."""
    if encoding == "plain" or is_special(token):
        return escape_invisible(token)
    try:
        to_bytes = _from_byte_level if encoding == "byte-level" else _from_sentencepiece
        return escape_invisible(to_bytes(token).decode("utf-8"))
    except UnicodeDecodeError:
        return escape_invisible(token)
