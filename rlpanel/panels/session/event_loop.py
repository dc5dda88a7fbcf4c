"""The event loop, and for a served page the Bokeh document, on which a session is drawn.

Any thread may schedule callbacks with `SessionLoop.call_soon`. They run on the loop's thread, with the
document locked. With Bokeh's own `Document.add_next_tick_callback` neither is certain:

- While a document is held (`panel.io.hold`), scheduled callbacks are queued together with the held changes.
  A callback that another thread adds just as the hold ends is silently lost, also by Bokeh 3.10
  (docs/upstream/bokeh-held-callbacks.md). Panel mended another loss in 1.9.4
  (https://github.com/holoviz/panel/issues/8691).
- From version 3.10 on, Bokeh builds pages and runs callbacks on worker threads, which have no event loop.
  Only coroutines run on the loop, as everything does in earlier versions.

`add_next_tick_callback` with a coroutine can replace `_run_callback` once Bokeh locks its held changes.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import panel as pn
from bokeh.document import Document
from panel.io.state import set_curdoc

from rlpanel.panel_fixes.document_state import has_unsent_changes, is_sending, server_loop

log = logging.getLogger(__name__)

#: Locked callbacks that have not finished; asyncio itself refers to a task only weakly.
_running: set[asyncio.Task[None]] = set()


class SessionLoop:
    """An event loop and the document that is drawn on it.

    Parameters
    ----------
    loop : AbstractEventLoop
        Loop that runs the callbacks.
    document : Document, optional
        Document with a session; None for a notebook cell, which has only the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, document: Document | None = None) -> None:
        self._loop, self._document = loop, document
        self._session: Any = document.session_context if document is not None else None

    @property
    def is_served(self) -> bool:
        """True if this is a served page, not a notebook cell."""
        return self._document is not None

    @property
    def runs_here(self) -> bool:
        """True if the calling thread is the one that runs the loop."""
        return _running_loop() is self._loop

    @property
    def is_gone(self) -> bool:
        """True if nothing can be drawn any more: the document's session or the loop has ended."""
        return self._loop.is_closed() or (self._session is not None and self._session.destroyed)

    @property
    def is_loading(self) -> bool:
        """True if a browser has connected but has not yet drawn the page; call it within a callback."""
        session = getattr(self._session, "session", None)
        return session is not None and session.connection_count > 0 and not pn.state.loaded

    @property
    def is_sending(self) -> bool:
        """True if changes wait to be sent, or a browser has not yet received all that was sent.

        A suspended page receives nothing; further messages would pile up in this process's memory.
        """
        document = self._document
        return document is not None and (has_unsent_changes(document) or is_sending(document))

    def call_soon(self, callback: Callable[[], Any]) -> None:
        """Run a callback on the loop, under the document's lock, unless the session is gone. Thread-safe."""
        self.on_loop(lambda _: self._run_callback(callback))

    def on_loop(self, callback: Callable[[asyncio.AbstractEventLoop], object]) -> None:
        """Call a function with the loop on its thread, without the document's lock. Thread-safe."""
        # An empty context: the callback would keep the document of the current one in memory.
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, self._loop, context=contextvars.Context())

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Run a callback after some seconds, as `call_soon` does. Thread-safe."""
        self.on_loop(lambda loop: loop.call_later(seconds, self._run_callback, callback))

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Run a callback when the document's session ends; without a document it is never run."""
        if self._document is not None:
            self._document.on_session_destroyed(lambda _: callback())

    def _run_callback(self, callback: Callable[[], Any]) -> None:
        if self.is_gone:
            return
        if self._document is None:
            callback()
            return
        locked: Any = partial(_run_locked, callback)  # its type differs between versions of Bokeh
        if getattr(self._session, "session", None) is None:
            # The page is still being built, on a thread; its session starts with the callbacks added here.
            self._document.add_next_tick_callback(partial(locked, self._document))
        else:
            task = self._loop.create_task(
                self._session.with_locked_document(locked), context=contextvars.Context()
            )
            _running.add(task)
            task.add_done_callback(_running.discard)


async def _run_locked(callback: Callable[[], Any], document: Document) -> None:
    """Run a callback on the loop, for which Bokeh has locked the document."""
    with set_curdoc(document):
        try:
            callback()
        except Exception:
            log.exception("error in a callback of a session")


def current_loop() -> SessionLoop | None:
    """Return the loop of the served page or notebook cell; None in a script, which has no event loop."""
    document = pn.state.curdoc
    if document is not None and document.session_context is None:
        document = None
    loop = _running_loop() or (server_loop(document) if document is not None else None)
    return SessionLoop(loop, document) if loop is not None else None


def drawing_loop() -> SessionLoop | None:
    """Return the served page's loop; None in a script or notebook cell, whose output must be complete."""
    return current_loop() if pn.state.curdoc is not None else None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
