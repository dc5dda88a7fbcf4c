"""Text tests on the fields of a sample, and patterns of searches, bounded before they are compiled."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from unicodedata import normalize

import numpy as np
import regex

from rlpanel.errors import FilterError

# -- search pattern ------------------------------------------------------------------------------------
# Regular expressions of searches and filters, which are bounded before they are compiled.
#
# Compiling copies what is repeated: ``(a?){999}`` becomes a thousand copies of ``a?``, and ``(a+)+`` two of
# ``a+``. Nested repeats multiply: 26 characters can take 10 GB. So the length with all copies is limited.
#
# Case-insensitive byte search in blocks of a log: a vectorised pass for the rarest bytes, then exact checks.
#
# Case is ignored by folding: callers fold needles with `fold_bytes`, and the search folds each block in
# place.


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


# -- text predicate ------------------------------------------------------------------------------------
# Text tests (contains, equals, matches, ...) on one field of a sample or on any of its texts.


#: Time limit in seconds for a regular expression on one text.
PATTERN_SECONDS = 0.25
#: Maximum number of places that are found in a text, to be shown.
MAX_PLACES = 50
#: Field name that selects all of the sample's texts.
ANY = ""


@dataclass(frozen=True)
class TextPredicate:
    """A test of a text.

    Attributes
    ----------
    field : str
        The text to test; `ANY` passes if one of the texts does.
    word : str
        Operator: ``contains``, ``startswith``, ``endswith`` (all case-insensitive), ``matches`` (a regular
        expression), ``==`` or ``missing``.
    value : str
        Text to compare with.

    Raises
    ------
    FilterError
        If the value is not a valid regular expression; from `passes`, if it takes too long.
    """

    field: str
    word: str
    value: str

    def __post_init__(self) -> None:
        if self.word == "matches":
            self._pattern  # noqa: B018 - compiles it, so that an invalid one raises now

    def __hash__(self) -> int:
        return hash((self.field, self.word, self.value))

    def passes_sample(self, texts: Mapping[str, str]) -> bool:
        """Return whether a sample's texts pass."""
        if self.field:
            return self.passes(texts.get(self.field))
        return any(map(self.passes, texts.values()))

    def passes(self, text: str | None) -> bool:
        """Return whether a text passes; None (not logged) passes only the test ``missing``."""
        if text is None or self.word == "missing":
            return text is None and self.word == "missing"
        return self._check(text)

    def places(
        self, text: str, most: int = MAX_PLACES, seconds: float = PATTERN_SECONDS
    ) -> list[tuple[int, int]]:
        """Return where a text passes: start and end of at most ``most`` places, which do not overlap.

        Empty if it does not pass, or if a regular expression takes longer than ``seconds``.
        """
        if self.word == "matches":
            return self._matching_places(text, most, seconds)
        if self.word == "missing" or not self.value or not self.passes(text):
            return []
        # Folding keeps the number of characters, so that places in the folded text are those in the text.
        pattern = "|".join(map(re.escape, map(fold, self._forms)))
        pattern = {"endswith": rf"(?:{pattern})\Z", "contains": pattern}.get(self.word, rf"\A(?:{pattern})")
        return [match.span() for match in islice(re.finditer(pattern, fold(text)), most)]

    def _matching_places(self, text: str, most: int, seconds: float) -> list[tuple[int, int]]:
        try:
            found = self._pattern.finditer(text, timeout=seconds, concurrent=True)
            return [match.span() for match in islice(found, most) if match.end() > match.start()]
        except (TimeoutError, MemoryError):
            return []

    @cached_property
    def _check(self) -> Callable[[str], bool]:
        forms, folded = self._forms, tuple(map(fold, self._forms))
        first, others = folded[0], folded[1:]
        checks: dict[str, Callable[[str], bool]] = {
            "==": lambda text: text in forms,
            "contains": lambda text: first in (text := fold(text)) or any(form in text for form in others),
            "startswith": lambda text: fold(text).startswith(folded),
            "endswith": lambda text: fold(text).endswith(folded),
            "matches": self._matches,
        }
        return checks[self.word]

    @cached_property
    def _forms(self) -> tuple[str, ...]:
        """The value with its accents as parts of letters and as characters of their own."""
        return tuple(dict.fromkeys((self.value, *forms_of(self.value))))

    @cached_property
    def _pattern(self) -> regex.Pattern[str]:
        return compile_pattern(self.value)

    def _matches(self, text: str) -> bool:
        started = time.monotonic()
        try:
            # The timeout can interrupt a match; concurrent=True releases the GIL for other threads.
            return self._pattern.search(text, timeout=PATTERN_SECONDS, concurrent=True) is not None
        except (TimeoutError, MemoryError) as error:
            raise FilterError(
                f"the regular expression was stopped after {time.monotonic() - started:.1f} s on one text; "
                "nested repeats such as (a+)+ take very long"
            ) from error


class PlaceFinder:
    """Finds what tests look for in the texts of samples that are shown.

    Pages are drawn meanwhile, so the regular expressions have one time limit for all texts. Afterwards they
    find nothing.

    Parameters
    ----------
    tests : iterable of TextPredicate
    """

    def __init__(self, tests: Iterable[TextPredicate]) -> None:
        self._tests = [*tests]
        self._left = PATTERN_SECONDS

    def places(self, field: str, text: str) -> list[tuple[int, int]]:
        """Return the places in one of a sample's texts, in order and without overlaps.

        Parameters
        ----------
        field : str
            The text's name; tests of other texts are left out.
        """
        found: list[tuple[int, int]] = []
        for test in self._tests:
            if test.field in (ANY, field) and (self._left > 0 or test.word != "matches"):
                started = time.monotonic()
                found += test.places(text, seconds=self._left)
                self._left -= time.monotonic() - started if test.word == "matches" else 0
        kept: list[tuple[int, int]] = []
        for place in sorted(found):
            if not kept or place[0] >= kept[-1][1]:
                kept.append(place)
        return kept


def forms_of(text: str) -> tuple[str, ...]:
    """Return a text in Unicode's two normal forms: é may be one character or two. ASCII has only one."""
    return (text,) if text.isascii() else (normalize("NFC", text), normalize("NFD", text))


def fold(text: str) -> str:
    """Return a text in lower case.

    The two non-ASCII letters whose lower case contains an ASCII letter (Kelvin sign, dotted I) stay distinct.
    So an ASCII letter in a search only matches an ASCII letter in the file, as the byte search assumes.
    """
    if not text.isascii():
        text = text.replace("\u212a", "\ue000").replace("\u0130", "\ue001")
    return text.lower()
