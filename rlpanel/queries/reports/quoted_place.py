"""Finds where a text that a reader selected on the screen stands in a sample's log."""

from __future__ import annotations

from collections.abc import Iterator

from rlpanel.errors import SettingError
from rlpanel.schema import TEXTS, Sample


def quoted_place(sample: Sample, selected: str) -> tuple[str, str]:
    """Return the field of a sample that holds a selected text, and the text as it is logged.

    White space does not count, because the screen indents JSON and breaks lines. Messages of the response
    come first, then those of the prompt, then other fields.

    Parameters
    ----------
    sample : Sample
    selected : str
        As it is on the screen.

    Returns
    -------
    field : str
        ``messages.3``, or the name of a text such as ``response``.
    quote : str
        A part of that text.

    Raises
    ------
    SettingError
        If nothing was selected, or no text of the sample holds it.
    """
    wanted = "".join(selected.split())
    if not wanted:
        raise SettingError("select a text first")
    for name, text in _texts(sample):
        places = [at for at, letter in enumerate(text) if not letter.isspace()]
        at = "".join(text.split()).find(wanted)
        if at >= 0:
            return name, text[places[at] : places[at + len(wanted) - 1] + 1]
    raise SettingError(
        "the log does not hold the selected text as it is shown; select a part of one message, in Raw"
    )


def _texts(sample: Sample) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a sample that a quotation can name."""
    first = max(sample.prompt_messages, 0)
    count = len(sample.messages)
    for at in [*range(first, count), *range(first)]:
        content = sample.messages[at].get("content") if at < count else None
        if isinstance(content, str):
            yield f"messages.{at}", content
    for name in ("response", *(each for each in TEXTS if each != "response")):
        if text := getattr(sample, name):
            yield name, str(text)
