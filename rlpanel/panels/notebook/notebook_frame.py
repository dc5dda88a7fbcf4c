"""Frame of a view in a notebook cell without network access, and panels that follow a run."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import panel as pn
import param
from bokeh.model import Model
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.folded_html import escaped
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panel_fixes.embedded_sheets import SheetsOfView
from rlpanel.panel_fixes.notebook_view import NotebookView
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.event_loop import SessionLoop, current_loop
from rlpanel.panels.session.session import Session
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import PlainDesign
from rlpanel.queries.catalogue import question_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table
from rlpanel.store.index.run_index import RunIndex

# -- notebook frame ------------------------------------------------------------------------------------
# Frame of a view in a notebook cell: theme, scripts and style sheets without network access.
#
# Style sheets are embedded as ``data:`` URLs. Changes are held back until the browser has drawn the view: a
# message that arrives during drawing is applied only in part, and the browser cannot decode any later one.
# Messages of the browser are handled on the loop that draws the view, whichever thread they arrive on.


#: Seconds to wait for the browser to report that the view is drawn; a page of another tool may never do so.
PATIENCE = 60.0


#: Hides ages in a saved view, where nothing updates them; they are shown once a kernel responds.
_NO_AGES = "--rl-now: none;"
_FADE = ":host > :not(.rl-kernel) { filter: var(--rl-frame-faded, none); }"


class DrawnSignal(Component):
    """Component that reports to the kernel when the browser has drawn the view; repeated until confirmed.

    Afterwards it shows a message over the view if the kernel was restarted, is busy or unreachable.
    """

    plot = param.String(default="", doc="Id under which the page lists the view's kernel.")
    follows = param.Boolean(default=False, doc="Whether the theme of the page around the view is reported.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/clock.js", "panels/notebook/kernel_status.js")
    _stylesheets = [read_assets("panels/notebook/kernel_status.css")]

    def __init__(self) -> None:
        corner = {"position": "absolute", "inset": "0 0 auto auto"}
        super().__init__(width=0, height=0, margin=0, styles=corner, css_classes=["rl-kernel"])
        self.channels: list[DelayedComm] = []
        self.on_theme: Callable[[bool], None] = lambda dark: None

    def receive(self, message: Any) -> None:
        """Open the channels once the browser has drawn the view, or take the theme of the page around it."""
        if message in ("dark", "light"):
            self.on_theme(message == "dark")
            return
        for channel in self.channels:
            channel.open()
        self.send("heard")


class NotebookFrame(NotebookView):
    """Frame with the colours and fonts of the theme, which a view on the board gets from the page.

    Parameters
    ----------
    view : Viewable or Viewer
    context : Context
        Kept alive as long as the frame, since the run holds it only weakly; its theme is the frame's.
    dark : bool, optional
        Dark or light; by default `pn.config.theme`, and the theme of the page around it once it is known.
    """

    def __init__(self, view: Any, context: Context, dark: bool | None, **options: Any) -> None:
        self.view, self.context, self._signal = view, context, DrawnSignal()
        self._loop = current_loop()
        self._signal.follows = dark is None
        self._signal.on_theme = self._on_theme
        super().__init__(
            view,
            self._signal,
            sizing_mode="stretch_width",
            margin=0,
            styles={"background": "var(--rl-bg)", "padding": "8px", "position": "relative"},
            stylesheets=[theme.theme_variables(":host({})"), f":host {{{_NO_AGES}}}", _FADE],
            css_classes=[_theme_class(context.selection.dark)],
            design=PlainDesign,
            **options,
        )

        context.selection.param.watch(self._restyle, "dark")

    def _on_theme(self, dark: bool) -> None:
        self.context.selection.dark = dark

    def _restyle(self, event: Any) -> None:
        self.css_classes = [_theme_class(event.new)]

    def begin(self, model: Model, channel: Any) -> None:
        """Delay the messages of one output, and embed the style sheets of its view."""
        delayed = DelayedComm(channel)
        delayed.sheets.embed(model)
        self._signal.channels.append(delayed)
        self._signal.plot = model.ref["id"]

    def run_on_loop(self, handle: Callable[[], object]) -> None:
        """Handle a message of the browser on the loop that draws the view.

        JupyterLab delivers messages on another thread, a subshell of the kernel. A message that this thread
        sent in response could be mixed with one of the loop's, and the browser would decode neither.
        """
        if self._loop is None or self._loop.runs_here:
            handle()
        else:
            self._loop.call_soon(handle)


class DelayedComm:
    """Queue in front of a view's channel: holds messages until the view is drawn, and embeds style sheets.

    Parameters
    ----------
    comm : Comm
        Channel to the browser. Its ``send`` is replaced by that of the queue.
    """

    def __init__(self, comm: Any) -> None:
        self.sheets = SheetsOfView()
        self._queue: list[tuple[Any, ...]] = []
        self._opens_at: float = time.monotonic() + PATIENCE
        self._send = comm.send
        comm.send = self.send

    def open(self) -> None:
        """Send the queued messages, and all later ones at once; called when the view is drawn."""
        self._opens_at = 0.0
        queue, self._queue = self._queue, []
        for data, rest, options in queue:
            self._send(data, *rest, **options)

    def send(self, data: Any = None, *rest: Any, **options: Any) -> None:
        """Send a message as the comm does, or queue it until the view is drawn."""
        data = self.sheets.embed_in(data) if isinstance(data, str) else data
        if self._opens_at > time.monotonic():
            self._queue.append((data, rest, options))
            return
        if self._queue:
            self.open()
        self._send(data, *rest, **options)


def _theme_class(dark: bool) -> str:
    return "rl-dark" if dark else "rl-light"


@cache
def load_scripts() -> None:
    """Load Panel's scripts, once and without network; to be called before creating a view."""
    if pn.state.curdoc is None:
        pn.extension("tabulator", inline=True)


# -- run binding ---------------------------------------------------------------------------------------
# Panels of a notebook or of another application's page that follow a run.


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
