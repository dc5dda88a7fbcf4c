"""Texts of a log as plots may show them."""

from __future__ import annotations

import re

#: Maximum number of characters of a text from the log in a plot.
_TEXT_CHARS = 80


def shown_text(text: object, most: int = _TEXT_CHARS) -> str:
    """Return a text of the log as a plot may show it: of one line, short, and never the end of a script.

    Notebooks receive a plot as a script that contains its texts. A zero-width space keeps ``</script>`` and
    ``<!--`` from being read as HTML there.
    """
    flat = " ".join(str(text).split())
    flat = flat if len(flat) <= most else f"{flat[: most - 1]}…"
    return re.sub(r"<(?=[/!])", "<\u200b", flat).encode("utf-8", "replace").decode()
