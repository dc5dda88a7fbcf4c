"""Button that counts an update's phrases in the next steps, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import panel as pn
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.inputs.input_fields import FieldRow, button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.update.next_steps import NextSteps, next_steps
from rlpanel.update.update_anatomy import WeightRow


class NextPhrases(Viewer):
    """Counts phrases in the next steps on demand.

    Parameters
    ----------
    context : Context
    note : Html
        Gets what was found in words.
    changed : callable
        Is called when there are other frequencies.
    """

    def __init__(self, context: Context, note: Html, changed: Callable[[], None], **params: Any) -> None:
        super().__init__(**params)
        self._context, self._note, self._changed = context, note, changed
        self._rows, self._phrases = np.empty(0, np.int64), list[WeightRow]()
        self._found: NextSteps | None = None
        self._work: BackgroundTask[NextSteps] = BackgroundTask(self._show, context.threads.queries)
        self._count = button(
            tr("Count the phrases in the next steps"), self._on_count, css_classes=["rl-update-next"]
        )
        self._stop = button(tr("Stop"), self._on_stop, visible=False)
        self._column = pn.Column(
            FieldRow(self._count, self._stop, margin=(0, 12)), note, sizing_mode="stretch_width", margin=0
        )

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def show_phrases(self, rows: np.ndarray, phrases: Sequence[WeightRow]) -> None:
        """Take the phrases of another update, whose samples are ``rows``; none hides the button."""
        self._work.stop()
        self._rows, self._phrases, self._found = rows, list(phrases), None
        self._stop.visible, self._note.html = False, ""

    def numbers(self, phrase: str) -> list[str]:
        """Return the frequency of a phrase at the update and later; empty if it is not counted."""
        found = self._found
        if found is None or phrase not in found.phrases:
            return []
        at = found.phrases.index(phrase)
        pair = (float(found.now[at]), float(found.following[at]))
        return ["–" if value != value else f"{value:.1%}" for value in pair]

    @property
    def titles(self) -> list[str]:
        """Titles of `numbers`; empty if nothing is counted."""
        return [] if self._found is None else [tr("responses"), tr("next steps")]

    def _on_count(self, *_: Any) -> None:
        index = self._context.index
        if index is None or not self._phrases:
            return
        self._stop.visible = True
        phrases = [row.value for row in self._phrases]
        self._work.start(next_steps(index, self._context.view, self._rows, phrases))

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._stop.visible = False
        self._say(tr("Stopped."))

    def _say(self, text: str) -> None:
        self._note.html = f'<p class="note">{safe_text(text)}</p>'

    def _show(self, found: NextSteps) -> None:
        if not found.complete:
            self._say(tr("Reading responses: {read:,} of {total:,} …", read=found.read, total=found.total))
            return
        self._stop.visible, self._found = False, found
        if not found.steps:
            self._say(tr("The run has no later step yet."))
        else:
            self._say(_words(found, np.array([row.push for row in self._phrases])))
        self._changed()


def _words(found: NextSteps, push: np.ndarray) -> str:
    words = [
        tr(
            "Share of the responses with a phrase, at this step and from step {first:,} to {last:,}.",
            first=found.steps[0], last=found.steps[-1],
        )
    ]  # fmt: skip
    agreement = found.agreement(push)
    if agreement is not None:
        words.append(tr(
            "Push and change have the rank correlation {value} over {phrases:,} phrases. It is no proof: all "
            "updates and other prompts took part in the change.",
            value=number(agreement, sign=True), phrases=len(found.phrases),
        ))  # fmt: skip
    if found.unreadable:
        words.append(tr("{count:,} samples changed and were left out.", count=found.unreadable))
    return " ".join(words)
