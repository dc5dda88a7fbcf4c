"""Shortens texts to what a cell, a line, a plot or a message has room for."""

from __future__ import annotations

import re

ELLIPSIS = "…"


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


def plot_text(text: object, chars: int = 80) -> str:
    """Return a text of the log as a plot may show it: of one line, short, and never the end of a script.

    Notebooks receive a plot as a script that contains its texts. A zero-width space keeps ``</script>`` and
    ``<!--`` from being read as HTML there.
    """
    flat = shorten(" ".join(str(text).split()), chars, within=True)
    return re.sub(r"<(?=[/!])", "<\u200b", flat).encode("utf-8", "replace").decode()
