"""Panels of a notebook or of another application's page that follow a run."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import panel as pn
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.folded_html import escaped
from rlpanel.number_text import number
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.event_loop import SessionLoop, current_loop
from rlpanel.panels.session.session import Session
from rlpanel.queries.catalogue import question_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table
from rlpanel.store.index.run_index import RunIndex

#: Seconds after which the newest step may count as complete if no sample was added.
_COMPLETE_AFTER = 1.1


class FollowedRun(Protocol):
    """The part of a `Run` that is needed here: `rlpanel.api` draws plots, so panels cannot import it."""

    @property
    def data(self) -> RunData:
        """The newest snapshot."""

    def listen(self, listener: Callable[[RunIndex | None], None]) -> Callable[[], None]:
        """Subscribe to changes, and return the function that ends the subscription."""


def context_of(run: FollowedRun, **selected: Any) -> Context:
    """Return a context that follows ``run`` until the context is garbage-collected or the run closed.

    Parameters
    ----------
    run : FollowedRun
    **selected
        Parameters of `Selection`, without those that are None. A given step turns off *follow latest*.
    """
    given = {name: value for name, value in selected.items() if value is not None}
    if "step" in given:
        given["follow"] = False
    data = run.data
    context = Context(selection=Selection(run=data.name, **given))
    context.param.update(index=data.index, view=data.view)
    loop = current_loop()
    if loop is not None:
        _follow(run, context, loop)
    return context


def _follow(run: FollowedRun, context: Context, loop: SessionLoop) -> None:
    """Update the context when the run changes; it holds the context weakly so that it can be freed."""
    reference = weakref.ref(context, lambda _: stop_listening())

    def draw(_: object = None) -> None:
        current = reference()
        if current is not None:
            current.param.update(view=run.data.view, now=time.time())

    def on_change(_: object) -> None:
        draw()
        loop.call_later(_COMPLETE_AFTER, draw)  # the newest step may be complete by then

    index = run.data.index
    session = Session(loop, on_change)
    stop_listening = run.listen(lambda changed: session.notify(changed) if changed is index else None)
    loop.on_gone(stop_listening)


#: Most rows that are shown.
MAX_ROWS = 50


class AnswerTable(Viewer):
    """Asks a question again whenever the run has new samples, and shows the first rows.

    Parameters
    ----------
    context : Context
    name : str
        Name of the question.
    **options
        Options of the question.

    Raises
    ------
    SettingError
        If there is no such question.
    """

    def __init__(self, context: Context, name: str, **options: Any) -> None:
        super().__init__()
        self._context, self._question, self._options = context, question_of(name), options
        self._pane = pn.pane.HTML(self.html, sizing_mode="stretch_width")
        context.param.watch(self._draw, "view")

    @property
    def html(self) -> str:
        """The table, or why there is none, as HTML in which all texts of the log are escaped."""
        if self._context.index is None or self._context.view is None:
            return ""
        try:
            return table_html(
                self._question(RunData(self._context.index, self._context.view), **self._options)
            )
        except RLPanelError as error:
            return f"<p>{escaped(error)}</p>"

    def _draw(self, *_: object) -> None:
        self._pane.object = self.html

    def __panel__(self) -> pn.pane.HTML:
        return self._pane


def table_html(table: Table) -> str:
    """Return the first rows of a table as HTML, with the number of those that are left out."""
    names = [column.name for column in table.columns]
    head = "".join(f"<th>{escaped(name)}</th>" for name in names)
    rows = [
        f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>"
        for row in table.rows[:MAX_ROWS]
    ]
    left_out = table.total - table.offset - len(rows)
    more = f"<p>{left_out:,} more rows</p>" if left_out > 0 else ""
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return escaped(", ".join(map(str, value)) if isinstance(value, list) else value)
