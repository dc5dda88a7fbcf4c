"""Values and texts of a log as Rich text: nothing in them controls the terminal or is read as markup."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from rlpanel.number_text import number
from rlpanel.texts.harmless_text import printable, printable_lines


def text_cell(value: Any, style: str = "", most: int = 200) -> Text:
    """Return a text in one line of at most ``most`` characters; a dash for None."""
    if value is None:
        return Text("–", style="dim")
    line = " ".join(printable(str(value)[: 4 * most]).split())
    return Text(line if len(line) <= most else f"{line[: most - 1]}…", style=style)


def number_cell(value: Any) -> Text:
    """Return a number aligned to the right; a dash for a missing one."""
    if value is None:
        return Text("–", style="dim", justify="right")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Text(number(value, whole=isinstance(value, int)), justify="right")
    return text_cell(value)


def block(text: str, style: str = "") -> Text:
    """Return a text of several lines."""
    return Text(printable_lines(text), style=style, overflow="fold")
