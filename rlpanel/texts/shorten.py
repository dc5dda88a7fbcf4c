"""Shortens texts to the room there is, and removes characters that control a terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlpanel.errors import SettingError

# -- shorten -------------------------------------------------------------------------------------------
# Shortens texts to what a cell, a line, a plot or a message has room for.


ELLIPSIS = "…"
#: Maximum characters of a text in one line; no screen shows more.
LINE_CHARS = 600


def shorten(text: str, chars: int, ellipsis: str = ELLIPSIS, *, within: bool = False) -> str:
    """Return a text of at most ``chars`` characters, with an ellipsis after it if something was cut off.

    Parameters
    ----------
    text : str
    chars : int
        Maximum number of characters of the text.
    ellipsis : str
        What a cut text ends with; empty for nothing.
    within : bool
        Whether the ellipsis counts as well, for a place of a fixed width.
    """
    if len(text) <= chars:
        return text
    return f"{text[: chars - len(ellipsis) if within else chars]}{ellipsis}"


def one_line(text: str) -> str:
    """Return the beginning of a text as one line; the page cuts it off where its space ends."""
    return " ".join(shorten(text, LINE_CHARS, "").split())


def first_line(text: str, most: int = 300) -> str:
    """Return the first line that is not empty, cut to ``most`` characters; a dash if there is none."""
    lines = text.strip().splitlines()
    return shorten(lines[0], most, "") if lines else "–"


def last_line(text: str) -> str:
    """Return the last line that is not empty, as one line; a dash if there is none."""
    return one_line(next((line for line in reversed(text.splitlines()) if line.strip()), "–"))


def spaced(text: str) -> str:
    """Return a piece of a line: each run of whitespace, also at its ends, as one space."""
    words = " ".join(text.split())
    return f"{' ' if text[:1].isspace() else ''}{words}{' ' if words and text[-1:].isspace() else ''}"


def marked_line(text: str, chars: int) -> str:
    """Return the beginning of a text as one line, with marks for line breaks and tabs."""
    return shorten(text, chars, "").replace("\n", "↵").replace("\t", "⇥")


def plot_text(text: object, chars: int = 80) -> str:
    """Return a text of the log as a plot may show it: of one line, short, and never the end of a script.

    Notebooks receive a plot as a script that contains its texts. A zero-width space keeps ``</script>`` and
    ``<!--`` from being read as HTML there.
    """
    flat = shorten(" ".join(str(text).split()), chars, within=True)
    return re.sub(r"<(?=[/!])", "<\u200b", flat).encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class TextLimit:
    """The characters of each text that a table returns: from an offset on, up to a maximum number.

    Attributes
    ----------
    chars : int or None
        Maximum number of characters; None for whole texts.
    offset : int
        Number of characters before the first one that is returned.

    Raises
    ------
    SettingError
        If a number is negative.
    """

    chars: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        if self.offset < 0 or (self.chars is not None and self.chars < 0):
            raise SettingError("a text limit must not be negative")

    def of(self, text: str) -> str:
        """Return the part of a text."""
        end = None if self.chars is None else self.offset + self.chars
        return text[self.offset : end]

    def cuts(self, text: str) -> bool:
        """Return True if characters are left out after the part."""
        return self.chars is not None and len(text) > self.offset + self.chars


# -- harmless text -------------------------------------------------------------------------------------
# Texts of a log without the characters that control a terminal.


def printable(text: str) -> str:
    """Replace control and invisible characters by spaces, so that text of a log cannot control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def printable_lines(text: str) -> str:
    """Return a text of several lines without such characters in any of them; a tab is four spaces."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n"))
