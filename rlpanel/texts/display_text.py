"""Display texts of logged tokens: decoded, and aligned to the text of their response."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Literal, get_args

import numpy as np

# -- align texts ---------------------------------------------------------------------------------------
# Aligns the texts of tokens to the text of their response.
#
# Trainers often log tokens that were decoded one by one, which loses information: SentencePiece drops the
# space before a word, and a token with a part of a character becomes U+FFFD. A ``Ġ`` may be left over, too.
# The response was decoded as a whole and has the right text. The alignment is greedy; its time is nearly
# linear.


REPLACEMENT = "\ufffd"

#: Share of the response's characters whose tokens may have another text, such as one that was normalized.
TOLERANCE = 0.1
#: Maximum number of characters to search ahead for a token's text.
MAX_AHEAD = 256


def align_texts(texts: Sequence[str], fixed: Sequence[bool], response: str) -> list[str] | None:
    """Return each token's part of the response.

    Parameters
    ----------
    texts : sequence of str, length T
        Texts of the tokens, decoded one by one.
    fixed : sequence of bool, length T
        Tokens that the response may leave out, such as ``<|im_end|>``. They keep their texts.
    response : str
        Text of all tokens, decoded as a whole.

    Returns
    -------
    list of str, length T, or None
        Joined, the texts are the response, with the fixed tokens and the whitespace that it leaves out. A
        character that spans several tokens is the text of its last token. None if the texts do not match.
    """
    alignment = _Alignment(response, len(texts))
    for index, text in enumerate(texts):
        if fixed[index] and not response.startswith(text, alignment.position):
            alignment.texts[index] = text
        elif text and not alignment.place(index, text):
            return None
    return alignment.texts if alignment.finish() else None


class _Alignment:
    """Position in the response up to which tokens are aligned, and tokens that wait for a later match."""

    def __init__(self, response: str, tokens: int) -> None:
        self.position = 0
        self.texts = [""] * tokens
        self._response = response
        # Index of each token that waits, and the text that it keeps if no characters are left for it.
        self._waiting: list[tuple[int, str]] = []
        self._ahead = 0
        self._misses_left = TOLERANCE * len(response) + 1

    def place(self, index: int, text: str) -> bool:
        """Place a token's text at its position in the response; return False if too many do not match."""
        if not text.strip(REPLACEMENT):
            self._wait(index, len(text))
            return True
        for candidate in _spellings(text):
            known = candidate.strip(REPLACEMENT)
            lead = len(candidate) - len(candidate.lstrip(REPLACEMENT))
            found = self._find(known, lead)
            if found >= 0:
                self._match(index, found, known, waits_before=lead > 0)
                if candidate.endswith(REPLACEMENT):
                    self._wait(index, len(candidate) - lead - len(known))
                return True
        if text.isspace():  # the response was stripped
            self.texts[index] = text
            return True
        self._wait(index, 2 * len(text), text)
        self._misses_left -= len(text)
        return self._misses_left >= 0

    def finish(self) -> bool:
        """Give the rest of the response to the tokens that wait; return False if none of them can have it."""
        rest = self._response[self.position :]
        if self._waiting and len(rest) <= self._ahead:
            self._share(rest)
            return True
        if self.texts and not rest.strip():
            self.texts[-1] += rest
            return True
        return not rest

    def _find(self, known: str, lead: int) -> int:
        """Return where a text is found ahead; -1 if nowhere within the reach of the waiting tokens."""
        response, begin = self._response, self.position
        reach = min(self._ahead + lead, MAX_AHEAD)
        if not reach and response.startswith(known, begin):
            return begin
        window = response[begin + reach : begin + reach + MAX_AHEAD]
        spaces = len(window) - len(window.lstrip())
        return response.find(known, begin, begin + reach + spaces + len(known))

    def _match(self, index: int, found: int, known: str, *, waits_before: bool) -> None:
        """Give the characters before the match to the tokens that wait, and a lost space to the token."""
        between = self._response[self.position : found]
        if waits_before:
            self._waiting.append((index, ""))
        if self._waiting:
            body = between if waits_before else between.rstrip()
            self._share(body)
            between = between[len(body) :]
        self.texts[index] += between + known
        self.position = found + len(known)
        self._waiting, self._ahead = [], 0

    def _share(self, part: str) -> None:
        """Spread characters evenly over the tokens that wait; each belongs to the last of its tokens."""
        count = len(self._waiting)
        for number, char in enumerate(part, 1):
            last = -(-number * count // len(part)) - 1
            self.texts[self._waiting[last][0]] += char
        for index, own in self._waiting:
            self.texts[index] = self.texts[index] or own

    def _wait(self, index: int, characters: int, own: str = "") -> None:
        self._waiting.append((index, own))
        self._ahead += characters


def _spellings(text: str) -> Iterator[str]:
    """Yield the text, then with the letters for spaces and line breaks replaced, then without whitespace."""
    yield text
    plain = text.replace("Ġ", " ").replace("Ċ", "\n").replace("▁", " ")
    if plain != text:
        yield plain
    stripped = plain.lstrip()
    if stripped and stripped != plain:
        yield stripped


# -- display text --------------------------------------------------------------------------------------
# Decodes logged tokens into display texts, one text per token.
#
# Logs contain tokens in three encodings. *Plain* tokens come from ``decode`` and are shown unchanged.
# *Byte-level* tokens (GPT-2, Llama 3, Qwen) write each byte as a letter, so that a space is ``Ġ`` and 国
# is ``åĽ½``. *SentencePiece* writes a space as ``▁`` and a byte outside its vocabulary as ``<0xE4>``. In
# the last two, one character may span several tokens: it is shown at the token that completes it, and the
# tokens before have an empty text.
#
# The texts are not HTML; the browser inserts them through ``textContent``.


Encoding = Literal["plain", "byte-level", "sentencepiece"]


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
