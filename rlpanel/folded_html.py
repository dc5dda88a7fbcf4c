"""Small pieces of HTML for notebooks: a table of numbers and folded texts. All texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping

from rlpanel.number_text import number

#: Maximum number of characters of a shown text, and of its beginning beside the fold.
MAX_CHARS, _BEGINNING = 20_000, 90
_CELL = "text-align: left; padding: 0 1em 0 0"
_TEXT = "white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24em; overflow: auto; text-align: left"


def escaped(text: object) -> str:
    """Escape a text, so that HTML shows it and never runs it."""
    return html.escape(str(text), quote=True)


def number_table(numbers: Mapping[str, float]) -> str:
    """Return numbers with their names in rows of four; missing ones (NaN) are left out."""
    cells = [
        f'<td style="{_CELL}">{escaped(name)}</td><td style="{_CELL}"><b>{number(value)}</b></td>'
        for name, value in numbers.items()
        if value == value  # not NaN
    ]
    rows = ["".join(cells[start : start + 4]) for start in range(0, len(cells), 4)]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if rows else ""


def folded_text(name: str, text: str) -> str:
    """Return a text that a click unfolds, with its beginning beside its name."""
    flat = " ".join(text[: 2 * _BEGINNING].split())
    beginning = flat if len(flat) <= _BEGINNING else f"{flat[: _BEGINNING - 1]}…"
    cut = text[:MAX_CHARS]
    rest = f"\n… {len(text) - MAX_CHARS:,} more characters" if len(text) > MAX_CHARS else ""
    return (
        f"<details><summary><b>{escaped(name)}</b> ({len(text):,} characters) {escaped(beginning)}</summary>"
        f'<pre style="{_TEXT}">{escaped(cut)}{rest}</pre></details>'
    )
