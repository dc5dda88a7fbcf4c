"""The prompts that never get better, worst first; a click leads to the newest sample of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.samples.text_cache import read_texts
from rlpanel.panels.samples.text_table import text_table
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.prompt_text import first_line
from rlpanel.panels.ui.table_click import click_field
from rlpanel.panels.ui.theme import number
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.prompts import UnsolvedPrompt, unsolved_prompts
from rlpanel.store.snapshot.snapshot import Snapshot

#: Prompts that are listed.
MOST_STUCK = 300
#: Samples of a run that are counted on the event loop; more on a thread.
COUNT_NOW = 100_000

_Counted = tuple[list[UnsolvedPrompt], list[str], list[str]]


class UnsolvedPrompts(Viewer):
    """A table of prompts.

    Parameters
    ----------
    context : Context
    say : callable
        Takes what there is to say about them.
    """

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is counted before.")
    picks = param.Integer(default=0, doc="How many prompts were clicked.")

    def __init__(self, context: Context, say: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._say = context, say
        self._work: BackgroundTask[_Counted] = BackgroundTask(self._put)
        self._picked = click_field(self._pick)
        names = ("prompt", "steps", "samples", "best", "last", "bar")
        self._table = text_table(names, "rl-stuck", self._picked, 420)
        self._table.titles = {"bar": "to reach"}
        self._column = pn.Column(self._table, self._picked, sizing_mode="stretch_width", margin=0)
        context.param.watch(self._draw, "index")
        context.display.param.watch(self._draw, ["pad_token", "system_end", "stuck_steps"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context = self.context
        self._work.stop()
        if not self.active or context.index is None:
            return
        results = self._count(context.index, context.snapshot, context.display.stuck_steps)
        if context.snapshot.samples <= COUNT_NOW:
            self._put(next(results))
        else:
            self._say("counting …")
            self._work.start(results)

    def _count(self, index: RunIndex, snapshot: Snapshot, least: int) -> Iterator[_Counted]:
        found = unsolved_prompts(snapshot, least)
        rows = np.array([prompt.row for prompt in found[:MOST_STUCK]], int)
        display = self.context.display
        prompts = [
            first_line(texts.get("prompt"), display.pad_token, display.system_end)
            for texts in read_texts(index, snapshot, rows)
        ]
        yield found, prompts, snapshot.uids(rows)

    def _put(self, counted: _Counted) -> None:
        found, prompts, uids = counted
        shown = found[: len(prompts)]
        self._table.value = pd.DataFrame(
            {
                "prompt": prompts,
                "steps": [f"{one.steps:,}" for one in shown],
                "samples": [f"{one.samples:,}" for one in shown],
                "best": [number(one.best) for one in shown],
                "last": [number(one.last) for one in shown],
                "bar": [number(one.bar) for one in shown],
                "uid": uids,
            },
            dtype=str,
        )
        least, referenced = self.context.display.stuck_steps, self.context.snapshot.has_number("ref_reward")
        below = "below the reference" if referenced else "no better than at first"
        self._say(f"{len(found):,} prompts still {below} after {least:,} steps or more")

    def _pick(self, event: Any) -> None:
        uid = event.new.partition("\n")[0]
        if uid:
            self.context.choose_sample(uid)
            self.picks += 1
