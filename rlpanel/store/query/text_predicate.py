"""One question to a text: contains, equals, matches, with or without a field that it is about."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import regex

from rlpanel.errors import FilterError

#: Seconds that a regular expression may take on one text before it is given up.
PATTERN_SECONDS = 0.25
MOST_PATTERN = 500
#: Any of the sample's texts.
ANY = ""


@dataclass(frozen=True)
class TextPredicate:
    """A test of a text.

    Attributes
    ----------
    field : str
        The text it is about; `ANY` for whichever passes.
    word : str
        ``contains``, ``startswith``, ``endswith`` (all without regard to case), ``matches`` (a regular
        expression), ``==`` or ``missing``.
    value : str

    Raises
    ------
    FilterError
        If the value is no regular expression; from `passes`, if it takes too long.
    """

    field: str
    word: str
    value: str

    def __post_init__(self) -> None:
        if self.word == "matches":
            self._pattern  # noqa: B018 - a wrong one is said at once

    def __hash__(self) -> int:
        return hash((self.field, self.word, self.value))

    def of(self, texts: Mapping[str, str]) -> bool:
        """Whether a sample's texts pass."""
        if self.field:
            return self.passes(texts.get(self.field))
        return any(map(self.passes, texts.values()))

    def passes(self, text: str | None) -> bool:
        """Whether a text passes; None, one that was not logged, passes as missing alone."""
        if text is None or self.word == "missing":
            return text is None and self.word == "missing"
        return self._check(text)

    @cached_property
    def _check(self) -> Callable[[str], bool]:
        value, folded = self.value, fold(self.value)
        checks: dict[str, Callable[[str], bool]] = {
            "==": lambda text: text == value,
            "contains": lambda text: folded in fold(text),
            "startswith": lambda text: fold(text).startswith(folded),
            "endswith": lambda text: fold(text).endswith(folded),
            "matches": self._matches,
        }
        return checks[self.word]

    @cached_property
    def _pattern(self) -> regex.Pattern[str]:
        if len(self.value) > MOST_PATTERN:
            raise FilterError(f"a regular expression has at most {MOST_PATTERN} characters")
        try:
            return regex.compile(self.value, regex.VERSION1)
        except (regex.error, RecursionError, OverflowError) as error:
            raise FilterError(f"this is no regular expression: {error}") from error

    def _matches(self, text: str) -> bool:
        started = time.monotonic()
        try:
            # Given up in the middle, and without the interpreter's lock, so that others go on meanwhile.
            return self._pattern.search(text, timeout=PATTERN_SECONDS, concurrent=True) is not None
        except TimeoutError as error:
            raise FilterError(
                f"the regular expression was given up after {time.monotonic() - started:.1f} s on one text; "
                "repeats inside repeats, as in (a+)+, are what takes so long"
            ) from error


def fold(text: str) -> str:
    """A text in lower case, letter by letter.

    The two letters whose lower case is a plain k or i stay themselves, so that what is plain in the
    search is plain in the file.
    """
    if not text.isascii():
        text = text.replace("\u212a", "\ue000").replace("\u0130", "\ue001")
    return text.lower()
