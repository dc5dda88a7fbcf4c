"""The page of a document, for a server that builds pages before browsers ask for them."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

import param
from bokeh.application.application import SessionContext
from bokeh.document import Document
from panel.io.state import set_curdoc, state

from rlpanel.app.board.board import Board
from rlpanel.app.page.page_layout import Layout
from rlpanel.app.page.page_template import set_first_view
from rlpanel.app.page.part_queue import PartQueue, Step
from rlpanel.panels.first_view.first_view import first_view_html
from rlpanel.panels.session.event_loop import SessionLoop

#: Longest wait for the first samples of a run, and the time between two looks, in seconds.
MAX_WAIT, LOOK_EVERY = 0.5, 0.02


class ServedPage:
    """The page of one document.

    Parameters
    ----------
    document : Document
    board : Board
    layout : Layout
    loop : SessionLoop, optional
        Without it the page is never adapted.
    """

    def __init__(self, document: Document, board: Board, layout: Layout, loop: SessionLoop | None) -> None:
        self._document, self._board, self._layout, self._loop = document, board, layout, loop
        # A weak reference: a value that held its document would keep the entry. The callback holds the page.
        _pages[document] = weakref.ref(self)
        document.on_session_destroyed(self._forget)

    def _forget(self, _: SessionContext) -> None:
        _pages.pop(self._document, None)

    @property
    def is_current(self) -> bool:
        """True if a new page would differ only in what is updated when a browser connects."""
        return self._board.is_as_asked

    def on_complete(self, callback: Callable[[], object]) -> None:
        """Call a function when all views are in the document; at once if they are."""
        self._layout.on_complete(callback)

    def renew_first_view(self) -> None:
        """Make the first view again, from what is known of the run now."""
        context = self._board.context
        with set_curdoc(self._document):
            set_first_view(self._document, first_view_html(context))

    def adapt(self, query: str, *, foreign: bool) -> bool:
        """Turn the page into that of another URL, before a browser connects; False if it cannot be.

        The first view is made at once, and the live views are drawn in small steps.
        """
        if self._loop is None or not self._board.has_current_notes:
            return False
        with set_curdoc(self._document):
            self._layout.reopen()
            draws = self._board.ask(query, foreign=foreign)
            _set_address(query)
        self.renew_first_view()
        self._draw(self._loop, draws, time.monotonic() + MAX_WAIT)
        return True

    def _draw(self, loop: SessionLoop, draws: list[Callable[[], object]], deadline: float) -> None:
        """Draw the views once something of the run has been read: else they would be drawn twice."""
        if self._board.awaits_run and time.monotonic() < deadline:
            loop.call_later(LOOK_EVERY, partial(self._draw, loop, draws, deadline))
            return

        def newest() -> list[Step]:
            return self._layout.redraw_steps(dict.fromkeys([*self._board.show_newest(), *draws]))

        PartQueue(loop, [newest]).start()


def _set_address(query: str) -> None:
    """Let the current document's location contain this query string instead of the one it was built for."""
    location = state.location
    if location is not None:
        search = f"?{query}" if query else ""
        with param.edit_constant(location):
            location.param.update(search=search, href=location.href.split("?")[0] + search)


def page_of(document: Document) -> ServedPage | None:
    """Return the page of a document; None if the document has another one, or none."""
    reference = _pages.get(document)
    return reference() if reference is not None else None


#: Of the process, but held by Bokeh's document: they end with it.
_pages: WeakKeyDictionary[Document, weakref.ref[ServedPage]] = WeakKeyDictionary()
