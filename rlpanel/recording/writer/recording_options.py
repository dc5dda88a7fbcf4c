"""What a user may turn about recording; ``RLPANEL_RECORD_<NAME>`` in the environment sets one."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

from rlpanel.errors import SettingError

_TRUE = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Options:
    """How rollouts are written.

    Attributes
    ----------
    digits : int
        Decimals kept of each number of a token array; plain numbers keep nine significant digits.
    text_chars : int
        Longest text that is kept; a longer one is cut and ends with ``…``.
    tokens : int
        Most tokens kept of a response, 0 for all. Sums over a cut response are no longer the trainer's,
        so its line says ``tokens_cut``, the number left out.
    queue_rows, queue_numbers : int
        Rows, and numbers in their token arrays, that may wait to be written; what does not fit is
        dropped, counted and logged.
    compress : bool
        Write ``.jsonl.zst`` in frames of about a megabyte, cut at line ends (needs ``zstandard``).
    """

    digits: int = 6
    text_chars: int = 200_000
    tokens: int = 0
    queue_rows: int = 16_384
    queue_numbers: int = 50_000_000
    compress: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingError(f"{name}={value!r}: give a whole number of {least} or more")

    @classmethod
    def from_environment(cls, **values: Any) -> Options:
        """The defaults, changed by the environment, changed by ``values``.

        Raises
        ------
        SettingError
            If a value is out of bounds or a setting does not exist.
        """
        names = {field.name for field in fields(cls)}
        if unknown := sorted(values.keys() - names):
            raise SettingError(f"no setting {unknown[0]!r}; there are {', '.join(sorted(names))}")
        found = {name: text for name in names if (text := os.environ.get(f"RLPANEL_RECORD_{name.upper()}"))}
        return replace(cls(), **{name: _parse(name, text) for name, text in found.items()} | values)


_LEAST = {"digits": 0, "text_chars": 1, "tokens": 0, "queue_rows": 1, "queue_numbers": 1}


def _parse(name: str, text: str) -> int | bool:
    if name == "compress":
        return is_true(text)
    try:
        return int(text)
    except ValueError as error:
        raise SettingError(f"RLPANEL_RECORD_{name.upper()}={text!r} is not a whole number") from error


def is_true(text: str) -> bool:
    """Whether an environment variable's text says yes."""
    return text.strip().lower() in _TRUE
