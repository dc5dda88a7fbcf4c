"""Texts from a log made readable: pads dropped, the system prompt folded away."""

from __future__ import annotations

from rlpanel.panels.ui.theme import safe_text

#: More than any line on a screen shows.
LINE_CHARS = 600


def clean(text: str, pad_token: str = "", system_end: str = "") -> str:
    """The text without pads, and without what stands before the end of the system prompt."""
    if pad_token:
        text = text.replace(pad_token, "")
    return split_system(text, system_end)[1]


def one_line(text: str) -> str:
    """The beginning of a text in one line, for a place that cuts it off where it ends."""
    return " ".join(text[:LINE_CHARS].split())


def split_system(text: str, system_end: str) -> tuple[str, str]:
    """The system prompt with its marker, and the rest; all is rest where the marker is not found."""
    if system_end and system_end in text:
        head, marker, rest = text.partition(system_end)
        return head + marker, rest.lstrip("\n")
    return "", text


def prompt_html(text: str, pad_token: str, system_end: str) -> str:
    """A prompt as HTML: the system prompt folded, the rest as it was written."""
    if pad_token:
        text = text.replace(pad_token, "")
    system, rest = split_system(text, system_end)
    folded = (
        f"<details><summary>system prompt, {len(system):,} characters</summary>{safe_text(system)}</details>"
    )
    return f"{folded if system else ''}{safe_text(rest)}"


def first_line(text: str | None, pad_token: str, system_end: str = "", most: int = 300) -> str:
    """The first line that shows anything, cut to ``most`` characters; a dash where none does."""
    lines = clean(text or "", pad_token, system_end).strip().splitlines()
    return lines[0][:most] if lines else "–"
