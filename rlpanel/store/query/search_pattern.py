"""Regular expressions of searches and filters, which are bounded before they are compiled.

Compiling copies what is repeated: ``(a?){999}`` becomes a thousand copies of ``a?``, and ``(a+)+`` two of
``a+``. Nested repeats multiply: 26 characters can take 10 GB. So the length with all copies is limited.

Case-insensitive byte search in blocks of a log: a vectorised pass for the rarest bytes, then exact checks.

Case is ignored by folding: callers fold needles with `fold_bytes`, and the search folds each block in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import regex

from rlpanel.errors import FilterError

#: Maximum number of characters of a regular expression.
MAX_PATTERN = 500
#: Maximum number of characters of a regular expression with all its repeats written out.
MAX_WRITTEN_OUT = 10_000

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z0-9]*x")
_CASELESS = re.compile(r"\(\?[a-zA-Z0-9-]*i")
#: A set that ignores case is compiled with all letters that have several spellings, such as ß.
_CASELESS_SET = 10
#: Repeats with their suffix ``?`` or ``+``; the least count of ``{n}`` and ``{n,m}`` is a group.
_REPEAT = r"(?:[?*+]|\{([0-9]*)(?:,[0-9]*)?\})[?+]?"
#: Parts of an expression without escaped characters.
_PART = re.compile(
    rf"""
      (?P<call>\(\?(?:R|[+-]?[0-9]+|&[^)]*|P[>&][^)]*)\))  # a group's content, once more
    | (?P<ignored>\(\?\#[^)]*\)|\(\?[a-zA-Z0-9-]*\))  # a comment or flags: a repeat skips it
    | (?P<open>\(\??)
    | (?P<close>\))
    | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|[^\[\]])*\])
    | (?P<repeat>{_REPEAT})
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Operations of sets, and a set within a set: where they end depends on details.
_SET_OPERATION = re.compile(r"\|\||~~|&&|--")


def compile_pattern(text: str) -> regex.Pattern[str]:
    """Compile a regular expression of a user.

    Raises
    ------
    FilterError
        If it is not valid, or too long with all its repeats written out.
    """
    if len(text) > MAX_PATTERN:
        raise FilterError(f"a regular expression has at most {MAX_PATTERN} characters")
    require_short(written_out(text))
    try:
        return regex.compile(text, regex.VERSION1, cache_pattern=False)
    except (regex.error, ValueError, LookupError, RecursionError, OverflowError) as error:
        raise FilterError(f"this is not a valid regular expression: {error}") from error
    finally:
        regex.purge()  # it remembers every expression's locale even if it does not cache the expression


def require_short(length: int) -> None:
    """Raise FilterError if regular expressions of this length, written out, are too long to be compiled."""
    if length > MAX_WRITTEN_OUT:
        raise FilterError(
            f"the repeats of regular expressions are too many: written out they have {_rounded(length)} "
            f"characters, and at most {MAX_WRITTEN_OUT:,} are allowed; use * or a smaller count"
        )


def written_out(text: str) -> int:
    """Return how many characters an expression has with all its repeats written out, or a larger number.

    Raises
    ------
    FilterError
        If it has the flag ``x``, with which spaces and comments may stand anywhere.
    """
    plain = _ESCAPED.sub("e", text)
    if _VERBOSE.search(plain):
        raise FilterError("the flag (?x) is not available: write the expression without spaces and comments")
    set_size = _CASELESS_SET if _CASELESS.search(plain) else 1
    groups = [_Group()]
    calls = 0
    for part in _PART.finditer(plain):
        kind, found = part.lastgroup, part[0]
        if (kind == "set" and _SET_OPERATION.search(found)) or (kind == "other" and found == "["):
            return _all_nested(plain) * set_size
        if kind == "open":
            groups.append(_Group())
        elif kind == "close":
            inner = groups.pop() if len(groups) > 1 else _Group()
            groups[-1].add(inner.length + 2)
        elif kind == "repeat":
            groups[-1].repeat(_copies(found))
        elif kind != "ignored":
            groups[-1].add(len(found) * (set_size if kind == "set" else 1))
            calls += kind == "call"
    # Each call adds at most one copy of a group, for another direction or with errors allowed.
    return sum(group.length for group in groups) * (1 + calls)


class _Group:
    """Length of a group's content, and of its last part, which a repeat repeats."""

    def __init__(self) -> None:
        self.length = self._last = 0

    def add(self, length: int) -> None:
        self.length += length
        self._last = length

    def repeat(self, copies: int) -> None:
        self.length += self._last * (copies - 1)


def _copies(repeat: str) -> int:
    """Return how many copies of its part a repeat is compiled to: its least count and one for all others."""
    least = re.match(r"\{([0-9]*)", repeat)
    return 1 + (int(least[1] or 0) if least else int(repeat[0] == "+"))


def _all_nested(text: str) -> int:
    """Return the length as if each repeat repeated the whole expression: its groups are not known."""
    length = len(text)
    for repeat in re.finditer(_REPEAT, text):
        length *= _copies(repeat[0])
    return length


def _rounded(length: int) -> str:
    """Return a number that may have hundreds of digits."""
    return f"{length:,}" if length < 10**12 else "more than a million million"


#: Number of bytes of a block that are sampled to estimate byte frequencies.
SAMPLE = 1 << 16
#: Share of candidate positions below which the rest of the needle is checked at the candidates only.
SPARSE = 1 / 4096
#: Number of needle bytes that are compared. The few false matches this allows are parsed and rejected later.
MAX_NEEDLE = 64

_ESCAPE = b"\\u00"  # sought before folding, which maps a backslash to the bar of special tokens
_DIGITS = 2


class ByteSearch:
    r"""Searches blocks of a file for several needles at once.

    Parameters
    ----------
    needles : sequence of bytes
        Folded byte strings; a line that contains any of them is a candidate.
    letters : iterable of str
        ASCII characters of the needles. A writer may escape them (``\u0071``), though no known one does. A
        line with such an escape is always a candidate, so that needles need not be sought in escaped
        spellings.
    """

    def __init__(self, needles: Sequence[bytes], letters: Iterable[str] = ()) -> None:
        self._needles = [needle[:MAX_NEEDLE] for needle in needles]
        codes = {
            fold_bytes(b"%02x" % ord(case)) for letter in letters for case in (letter.lower(), letter.upper())
        }
        self._codes = np.zeros(1 << 16, bool)
        self._codes[[int.from_bytes(code, "big") for code in codes]] = True
        self._escapes = bool(codes)
        self._logged: np.ndarray | None = None
        self._folded: np.ndarray | None = None

    def positions(self, block: np.ndarray) -> np.ndarray:
        """Return the positions of candidates in a block, in no particular order.

        Parameters
        ----------
        block : ndarray of uint8, shape (N,)
            Is folded in place.

        Returns
        -------
        ndarray of int, shape (M,)
        """
        positions = []
        if self._escapes:
            self._logged = _frequencies(block) if self._logged is None else self._logged
            positions.append(self._find_escapes(block, self._logged))
        np.bitwise_or(block, 0x20, out=block)
        self._folded = _frequencies(block) if self._folded is None else self._folded
        positions += [_find(block, needle, self._folded) for needle in self._needles]
        return np.concatenate(positions)

    def _find_escapes(self, block: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        r"""Return the positions of JSON escapes (``\u00xx``) of the needles' letters."""
        positions = _find(block[: max(0, len(block) - _DIGITS)], _ESCAPE, frequencies)
        digits = positions + len(_ESCAPE)
        folded = block[digits] | 0x20, block[digits + 1] | 0x20
        return positions[self._codes[folded[0].astype(np.uint16) << 8 | folded[1]]]


def fold_bytes(text: bytes) -> bytes:
    """Map upper and lower case to the same byte by setting bit 0x20; some other bytes coincide too."""
    return bytes(byte | 0x20 for byte in text)


def _frequencies(block: np.ndarray) -> np.ndarray:
    """Return the share of each byte in some of a block's bytes."""
    sample = block[:: max(1, len(block) // SAMPLE)]
    return np.bincount(sample, minlength=256) / max(1, len(sample))


def _find(block: np.ndarray, needle: bytes, frequencies: np.ndarray) -> np.ndarray:
    """Return the positions at which a needle begins, comparing its rarest bytes first."""
    room = len(block) - len(needle) + 1
    if room <= 0:
        return np.empty(0, np.intp)
    rarest: Iterator[int] = iter(sorted(range(len(needle)), key=lambda offset: frequencies[needle[offset]]))
    first = next(rarest)
    matches, share = block[first : first + room] == needle[first], frequencies[needle[first]]
    for offset in rarest:
        if share < SPARSE:
            break
        np.logical_and(matches, block[offset : offset + room] == needle[offset], out=matches)
        share *= frequencies[needle[offset]]
    if not matches.any():  # several times faster than listing no positions
        return np.empty(0, np.intp)
    positions = np.flatnonzero(matches)
    for offset, byte in enumerate(needle):
        if not len(positions):
            break
        positions = positions[block[positions + offset] == byte]
    return positions
