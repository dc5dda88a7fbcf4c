"""The forms of values in the board's address: how each is read from a text, and written as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any
from urllib.parse import quote, unquote


@dataclass(frozen=True)
class ValueForm:
    """ValueForm of a value in a query string.

    Attributes
    ----------
    read : callable
        Returns the value of a text, or raises `ValueError`.
    write : callable
        Returns the text of a value.
    """

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


def one_of(*allowed: str, also: Callable[[str], str] | None = None) -> ValueForm:
    """Return the form of a word; ``also`` reads a text that is none of the words."""

    def read(text: str) -> str:
        if text in allowed:
            return text
        if also is None:
            raise ValueError(text)
        return also(text)

    return ValueForm(read)


def some_of(*allowed: str) -> ValueForm:
    """Return the form of a list of words."""

    def read(text: str) -> list[str]:
        return [one_of(*allowed).read(word) for word in dict.fromkeys(text.split(",")) if word]

    return ValueForm(read, ",".join)


def between(kind: type[int] | type[float], low: float, high: float) -> ValueForm:
    """Return the form of a number from ``low`` to ``high``."""

    def read(text: str) -> float:
        value = kind(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return ValueForm(read, str if kind is int else "{:g}".format)


def _span(text: str) -> tuple[float, float]:
    first, _, last = text.partition("..")
    start, end = float(first), float(last)
    if not (start < end and isfinite(start) and isfinite(end)):
        raise ValueError(text)
    return start, end


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "dark"):
        return True
    if text.lower() in ("0", "false", "light"):
        return False
    raise ValueError(text)


#: Encodes the empty name in a list, and the empty text; a quoted name is never equal to it.
_EMPTY = "%"


def _names(text: str) -> list[str]:
    return ["" if name == _EMPTY else unquote(name) for name in text.split(",") if name]


def _write_names(names: list[str]) -> str:
    return ",".join(name.replace("%", "%25").replace(",", "%2C") or _EMPTY for name in names)


def run_names(most: int) -> ValueForm:
    """Return the form of a list of runs, joined with commas; special characters in a name are quoted."""

    def read(text: str) -> list[str]:
        names = [unquote(name, errors="strict") for name in text.split(",") if name]
        if len(names) > most:
            raise ValueError(text)
        return list(dict.fromkeys(names))

    return ValueForm(read, lambda names: ",".join(quote(name, safe="/ ", errors="replace") for name in names))


def _pairs(text: str) -> dict[str, str]:
    parted = [pair.partition(":") for pair in text.split(",") if pair]
    if not all(colon for _, colon, _ in parted):
        raise ValueError(text)
    return {unquote(name): unquote(value) for name, _, value in parted}


def _write_pairs(pairs: Mapping[str, str]) -> str:
    each = (quote(part, safe="/ <>=", errors="replace") for pair in pairs.items() for part in pair)
    return ",".join(f"{name}:{text}" for name, text in zip(each, each, strict=True))


TEXT, INTEGER = ValueForm(str), ValueForm(int)
#: Two finite numbers in their order, as ``9.5..28.5``.
SPAN = ValueForm(_span, lambda span: "..".join(map("{:.12g}".format, span)))
FLAG = ValueForm(_flag, lambda value: "1" if value else "0")
#: A text that may be empty.
ANY_TEXT = ValueForm(lambda text: "" if text == _EMPTY else text, lambda text: text or _EMPTY)
#: Names of columns, joined with commas; commas and percent signs in a name are quoted.
NAMES = ValueForm(_names, _write_names)
#: Names and texts as ``name:text,name:text``; these three characters are quoted in both.
PAIRS = ValueForm(_pairs, _write_pairs)
