"""Texts of a log without the characters that control a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Replace control and invisible characters by spaces, so that text of a log cannot control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def printable_lines(text: str) -> str:
    """Return a text of several lines without such characters in any of them; a tab is four spaces."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n"))
