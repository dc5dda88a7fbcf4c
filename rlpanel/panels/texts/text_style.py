"""How a session shows prompts: its settings, and the beginnings that the run's prompts share.

The beginnings are found in a few of the newest prompts, once for all sessions. They are looked for again only
when the run has twice as many samples, so that what is folded does not change with every step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.sample_texts import READ_NOW, read_texts, unread_bytes
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.prompt_parts import MIN_IN_CELLS, TextStyle, question_of, shared_beginnings

#: Names of the settings that change the style.
STYLE_SETTINGS = ("pad_token", "system_end", "fold_templates")
#: Maximum number of different prompts that are compared, and of the newest rows that they are taken from.
_PROMPTS, _ROWS = 32, 4096
_MAX_BYTES = READ_NOW // 4


class _Found:
    """Styles with the beginnings found so far in a run, by settings, with the number of samples then."""

    def __init__(self) -> None:
        self.styles: dict[TextStyle, tuple[int, TextStyle]] = {}


def text_style(context: Context) -> TextStyle:
    """Return the style of the session's prompts."""
    if context.index is None:
        return settings_style(context.display)
    return style_of(context.index, context.snapshot, context.display)


def style_of(index: RunIndex, snapshot: Snapshot, display: Display) -> TextStyle:
    """Return the style of a run's prompts with these settings; reads a few prompts if it is not known."""
    style = settings_style(display)
    if not style.fold or style.system_end or not snapshot.samples:
        return style
    found = cached_on(index, "beginnings", snapshot.split, _Found).styles
    samples, folding = found.get(style, (0, style))
    if snapshot.samples >= 2 * samples:
        questions = _questions(index, snapshot, style)
        folding = replace(
            style,
            beginnings=shared_beginnings(questions),
            cell_beginnings=shared_beginnings(questions, MIN_IN_CELLS),
        )
        found[style] = snapshot.samples, folding
    return folding


def settings_style(display: Display) -> TextStyle:
    """Return the style that the settings describe, which is all that responses need."""
    return TextStyle(display.pad_token, display.system_end, display.fold_templates)


def _questions(index: RunIndex, snapshot: Snapshot, style: TextStyle) -> list[str]:
    """Return the questions of some different prompts among the newest rows."""
    newest = snapshot.alive_rows[-_ROWS:]
    _, first = np.unique(snapshot.metadata("prompt_hash")[newest], return_index=True)
    rows = newest[np.sort(first)][-_PROMPTS:]
    while len(rows) and unread_bytes(index, snapshot, rows) > _MAX_BYTES:
        rows = rows[len(rows) // 2 + 1 :]
    texts = read_texts(index, snapshot, rows)
    return [question_of(each["prompt"], style) for each in texts if "prompt" in each]
