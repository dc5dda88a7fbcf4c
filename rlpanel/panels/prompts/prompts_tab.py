"""Prompts tab of the sample panel: history of the sample's prompt, or table of unsolved prompts.

The table has the worst prompts first; a click selects the prompt's newest sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.inputs.input_fields import FieldRow, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import DataColumn, DataTable
from rlpanel.panels.texts.sample_texts import read_texts
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.prompts import UnsolvedPrompt, unsolved_prompts
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import TextStyle, prompt_line

#: Maximum number of listed prompts.
MAX_PROMPTS = 300
#: Runs of up to this many samples are searched on the event loop, larger ones on a thread.
COUNT_NOW = 100_000

#: Unsolved prompts; first lines and uids of the listed ones.
_Result = tuple[list[UnsolvedPrompt], list[str], list[str]]


class UnsolvedPrompts(Viewer):
    """Table of prompts whose mean reward stayed below the reference's, or never exceeded their own first.

    Parameters
    ----------
    context : Context
    show_note : callable
        Shows a line of text about the prompts.
    """

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is computed before.")
    picks = param.Integer(default=0, doc="Number of clicks on a prompt.")

    def __init__(self, context: Context, show_note: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._show_note = context, show_note
        self._work: BackgroundTask[_Result] = BackgroundTask(self._show, context.threads.views)
        self.table = DataTable(
            [
                DataColumn("prompt", "prompt"),
                *(DataColumn(each, each, width=78, align="right") for each in ("steps", "samples", "best")),
                DataColumn("last", "last", width=78, align="right"),
                DataColumn("bar", "threshold", width=78, align="right"),
            ],
            pick=self._pick,
            sortable=False,
            height=420,
            sizing_mode="stretch_width",
            margin=(4, 8),
            css_classes=["rl-stuck"],
        )
        context.param.watch(self._draw, "index")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "stuck_steps"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self.table

    def _draw(self, *_: Any) -> None:
        context = self.context
        self._work.stop()
        if not self.active or context.index is None:
            return
        results = self._find(context.index, context.snapshot, text_style(context))
        if context.snapshot.samples <= COUNT_NOW:
            self._show(next(results))
        else:
            self._show_note(tr("Searching …"))
            self._work.start(results)

    def _find(self, index: RunIndex, snapshot: Snapshot, style: TextStyle) -> Iterator[_Result]:
        unsolved = unsolved_prompts(snapshot, self.context.display.stuck_steps)
        rows = np.array([prompt.row for prompt in unsolved[:MAX_PROMPTS]], int)
        prompts = [prompt_line(texts.get("prompt"), style) for texts in read_texts(index, snapshot, rows)]
        yield unsolved, prompts, snapshot.uids(rows)

    def _show(self, result: _Result) -> None:
        unsolved, prompts, uids = result
        listed = unsolved[: len(prompts)]
        frame = pd.DataFrame(
            {
                "prompt": prompts,
                "steps": [f"{prompt.steps:,}" for prompt in listed],
                "samples": [f"{prompt.samples:,}" for prompt in listed],
                "best": [number(prompt.best) for prompt in listed],
                "last": [number(prompt.last) for prompt in listed],
                "bar": [number(prompt.target) for prompt in listed],
                "uid": uids,
            },
            dtype=str,
        )
        self.table.draw(frame)
        least, referenced = self.context.display.stuck_steps, self.context.snapshot.has_number("ref_reward")
        below = tr("still below the reference reward") if referenced else tr("not above their first reward")
        self._show_note(
            tr(
                "{unsolved:,} prompts {below} after {least:,} steps or more",
                unsolved=len(unsolved),
                below=below,
                least=least,
            )
        )

    def _pick(self, uid: str, _: str) -> None:
        self.context.choose_sample(uid)
        self.picks += 1


_HISTORY, _UNSOLVED = "one", "stuck"


class PromptsTab(Viewer):
    """Tab with the choice of view and a line of text about it."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._mode = select_field("what", tr("Prompts"), 250)
        self._mode.param.update(
            options={tr("History of this prompt"): _HISTORY, tr("Unsolved prompts"): _UNSOLVED},
            value=_HISTORY,
        )
        self._note = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(6, 8),
            css_classes=["rl-over-time-note"],
        )  # fmt: skip
        self._history = PromptHistory(context, self._show_note)
        self._unsolved = UnsolvedPrompts(context, self._show_note)
        self._column = pn.Column(
            FieldRow(self._mode, self._note, margin=(8, 10, 0, 10)),
            self._history,
            self._unsolved,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self._mode.param.watch(self._activate, "value")
        self.param.watch(self._activate, "active")
        self._unsolved.param.watch(lambda _: setattr(self._mode, "value", _HISTORY), "picks")
        self._activate()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _activate(self, *_: Any) -> None:
        """Show and activate the chosen view only."""
        for key, view in ((_HISTORY, self._history), (_UNSOLVED, self._unsolved)):
            view.__panel__().visible = self._mode.value == key
            view.active = self.active and self._mode.value == key

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'
