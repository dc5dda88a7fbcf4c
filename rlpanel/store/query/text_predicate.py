"""Text tests (contains, equals, matches, ...) on one field of a sample or on any of its texts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from unicodedata import normalize

import regex

from rlpanel.errors import FilterError
from rlpanel.store.query.search_pattern import compile_pattern

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
