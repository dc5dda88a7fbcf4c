"""Options of recording; environment variables ``RLPANEL_RECORD_<NAME>`` set them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

from rlpanel.errors import SettingError

_TRUE = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Options:
    """Options of how rollouts are written.

    Attributes
    ----------
    digits : int
        Decimals of each number in a token array; other numbers keep nine significant digits, or three
        decimals if that is more.
    text_chars : int
        Maximum length of a text; a longer text is cut and ends with ``…``.
    tokens : int
        Maximum number of tokens of a response, 0 for no limit. Sums over a cut response differ from the
        trainer's, so its line has ``tokens_cut``, the number of tokens left out.
    queue_rows, queue_numbers : int
        Maximum number of rows in the queue, and of numbers in their token arrays. Rows beyond that are
        dropped, counted and logged.
    compress : bool
        Write ``.jsonl.zst`` in frames of about a megabyte, cut at line ends. Python before 3.14 needs
        ``backports.zstd``.
    """

    digits: int = 6
    text_chars: int = 200_000
    tokens: int = 0
    queue_rows: int = 16_384
    queue_numbers: int = 50_000_000
    compress: bool = False

    def __post_init__(self) -> None:
        for name, least in _MIN_VALUES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingError(f"{name}={value!r}: give a whole number of {least} or more")

    @classmethod
    def from_environment(cls, **values: Any) -> Options:
        """Return the options: ``values`` override the environment, which overrides the defaults.

        Raises
        ------
        SettingError
            If a value is out of bounds or an option does not exist.
        """
        names = {field.name for field in fields(cls)}
        if unknown := sorted(values.keys() - names):
            raise SettingError(f"no option {unknown[0]!r}; options are {', '.join(sorted(names))}")
        texts = {name: text for name in names if (text := os.environ.get(f"RLPANEL_RECORD_{name.upper()}"))}
        return replace(cls(), **{name: _parse(name, text) for name, text in texts.items()} | values)


_MIN_VALUES = {"digits": 0, "text_chars": 1, "tokens": 0, "queue_rows": 1, "queue_numbers": 1}


def _parse(name: str, text: str) -> int | bool:
    if name == "compress":
        return is_true(text)
    try:
        return int(text)
    except ValueError as error:
        raise SettingError(f"RLPANEL_RECORD_{name.upper()}={text!r} is not a whole number") from error


def is_true(text: str) -> bool:
    """Return whether the text of an environment variable means true."""
    return text.strip().lower() in _TRUE
