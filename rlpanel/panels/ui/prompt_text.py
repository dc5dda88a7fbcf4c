"""Makes texts from a log readable: removes padding tokens and folds the system prompt."""

from __future__ import annotations

from rlpanel.panels.ui.theme import safe_text

#: Maximum characters of a text in one line; no screen shows more.
LINE_CHARS = 600


def clean(text: str, pad_token: str = "", system_end: str = "") -> str:
    """Return the text without padding tokens and without the system prompt."""
    if pad_token:
        text = text.replace(pad_token, "")
    return split_system(text, system_end)[1]


def one_line(text: str) -> str:
    """Return the beginning of a text as one line; the page cuts it off where its space ends."""
    return " ".join(text[:LINE_CHARS].split())


def split_system(text: str, system_end: str) -> tuple[str, str]:
    """Split a text into the system prompt with its end marker, and the rest; without marker all is rest."""
    if system_end and system_end in text:
        head, marker, rest = text.partition(system_end)
        return head + marker, rest.lstrip("\n")
    return "", text


def prompt_html(text: str, pad_token: str, system_end: str) -> str:
    """Return a prompt as HTML: the system prompt folded, the rest as it was logged."""
    if pad_token:
        text = text.replace(pad_token, "")
    system, rest = split_system(text, system_end)
    folded = (
        f"<details><summary>system prompt, {len(system):,} characters</summary>{safe_text(system)}</details>"
    )
    return f"{folded if system else ''}{safe_text(rest)}"


def first_line(text: str | None, pad_token: str, system_end: str = "", most: int = 300) -> str:
    """Return the first line that is not empty, cut to ``most`` characters; a dash if there is none."""
    lines = clean(text or "", pad_token, system_end).strip().splitlines()
    return lines[0][:most] if lines else "–"
