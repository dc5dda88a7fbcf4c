"""The event loop that draws a session, and the turns that its pages take.

The event loop, and for a served page the Bokeh document, on which a session is drawn.

Any thread may schedule callbacks with `SessionLoop.call_soon`, and steps of drawing with `SessionLoop.draw`.
They run on the loop's thread, with the document locked. With Bokeh's own `Document.add_next_tick_callback`
neither is certain:

- While a document is held (`panel.io.hold`), scheduled callbacks are queued together with the held changes.
  A callback that another thread adds just as the hold ends is silently lost, also by Bokeh 3.10
  (docs/upstream/bokeh-held-callbacks.md). Panel mended another loss in 1.9.4
  (https://github.com/holoviz/panel/issues/8691).
- From version 3.10 on, Bokeh builds pages and runs callbacks on worker threads, which have no event loop.
  Only coroutines run on the loop, as everything does in earlier versions.

`add_next_tick_callback` with a coroutine can replace `_run_callback` once Bokeh locks its held changes.

Turns of the pages that are drawn on one event loop: one after another, with a pause after each.

Drawing one page takes some milliseconds of the event loop. If fifty pages redrew at once for the same change,
the loop would answer no request for seconds. With pauses each page waits a little longer, and changes that
arrive meanwhile are drawn together.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import panel as pn
from bokeh.document import Document
from panel.io.state import set_curdoc

from rlpanel.panel_fixes.component import LOOP_VARIABLE
from rlpanel.panel_fixes.document_state import has_unsent_changes

#: Share of the event loop's time that drawing may take while pages are waiting.
SHARE = 0.85
#: Upper limit of the drawing time that a pause is computed from; a page's first drawing may take longer.
MAX_DRAW_SECONDS = 0.1


class Turns:
    """Lock that gives the pages of an event loop their turns in the order in which they ask.

    Attributes
    ----------
    waiting : int
        Number of pages that wait for their turn.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and leave the event loop to requests after it."""
        self.waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self.waiting -= 1
        try:
            begin = time.monotonic()
            yield
            await asyncio.sleep(min(time.monotonic() - begin, MAX_DRAW_SECONDS) * (1 / SHARE - 1))
        finally:
            self._lock.release()


#: Of the process, but held by asyncio's loop: they end with it.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Return the turns of the running event loop; without a loop, turns for which nobody waits."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Turns()
    return _turns.setdefault(loop, Turns())


log = logging.getLogger(__name__)

#: A part of drawing; parts that it returns come next.
Step = Callable[[], "Iterable[Step] | None"]

#: Seconds of drawing after which the other steps of a page get another turn. Each turn sends a message, and
#: many small ones cost the server and the browser more than one.
TURN = 0.02
#: Seconds after which the next page gets its turn if this one's document is still locked.
PATIENCE = 0.5

#: Tasks that have not finished; asyncio itself refers to a task only weakly.
_running: set[asyncio.Task[None]] = set()


class SessionLoop:
    """An event loop and the document that is drawn on it.

    Parameters
    ----------
    loop : AbstractEventLoop
        Loop that runs the callbacks.
    document : Document, optional
        Document with a session; None for a notebook cell, which has only the loop.

    Attributes
    ----------
    busy : set
        Owners of work whose result is still to be drawn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, document: Document | None = None) -> None:
        self._loop, self._document = loop, document
        self._session: Any = document.session_context if document is not None else None
        self._steps: deque[Step] = deque()
        self._draws = False
        self._when_settled: list[Callable[[], object]] = []
        self.busy: set[object] = set()

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
    def has_stopped(self) -> bool:
        """True if the loop does not run: the server ends, and threads must not delay that."""
        return not self._loop.is_running()

    @property
    def has_unsent_changes(self) -> bool:
        """True if changes of the document wait to be sent."""
        return self._document is not None and has_unsent_changes(self._document)

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
        run: Any = partial(_run, callback)  # its type differs between versions of Bokeh
        if self._document is None or self._is_built:
            self._start(self._locked(run))
        else:
            # The page is still being built, on a thread; its session starts with the callbacks added here.
            self._document.add_next_tick_callback(partial(run, self._document))

    async def _locked(self, run: Callable[[Document | None], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine with the document locked, unless its session has ended."""
        if self._document is None:
            await run(None)
        else:
            await self._session.with_locked_document(run)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, context=contextvars.Context())
        _running.add(task)
        task.add_done_callback(_running.discard)
        return task

    @property
    def _is_built(self) -> bool:
        return getattr(self._session, "session", None) is not None

    # -- drawing in turns ------------------------------------------------------------------------

    def draw(self, step: Step) -> None:
        """Take a step of drawing when it is the page's turn, after its earlier ones. Thread-safe."""
        self.on_loop(lambda _: self._add_step(step))

    def when_settled(self, callback: Callable[[], object]) -> None:
        """Run a callback once, as soon as nothing is left to draw. Thread-safe."""
        self.draw(lambda: self._when_settled.append(callback))

    def _add_step(self, step: Step) -> None:
        if not self.is_gone:
            self._steps.append(step)
            self._start_drawing()

    def _start_drawing(self) -> None:
        """Start the task that takes the steps, unless it runs or will."""
        if self._draws or not self._steps:
            return
        self._draws = True
        start = partial(self.on_loop, lambda _: self._start(self._take_turns()))
        self._run_callback(partial(pn.state.onload, start) if self._is_loading else start)

    async def _take_turns(self) -> None:
        """Take the steps, as many in each turn as its time allows."""
        while self._steps and not self.is_gone and not self._is_loading:
            async with turns().take():
                turn = self._start(self._locked(partial(_run, self._take_steps)))
                await asyncio.wait([turn], timeout=PATIENCE)
            await asyncio.wait([turn])
        self._draws = False
        if self.is_gone:
            self._steps.clear()
        self._start_drawing()

    def _take_steps(self) -> None:
        if self._is_loading:  # a browser has connected in the meantime
            return
        end = time.monotonic() + TURN
        while self._steps and time.monotonic() < end:
            step = self._steps.popleft()
            try:
                self._steps.extendleft(reversed(list(step() or ())))
            except Exception:  # one broken view must not stop the session
                log.exception("error while drawing a session")
        if not self._steps and not self.busy:
            settled, self._when_settled = self._when_settled, []
            for callback in settled:
                callback()

    @property
    def _is_loading(self) -> bool:
        """True if a browser has connected but has not drawn the page yet: it would ignore changes."""
        if not self._is_built or not self._session.session.connection_count:
            return False
        with set_curdoc(self._document):
            return not pn.state.loaded


async def _run(callback: Callable[[], Any], document: Document | None) -> None:
    """Run a callback on the loop, for which Bokeh has locked the document; its changes are one message."""
    with set_curdoc(document) if document is not None else nullcontext(), pn.io.hold(document):
        try:
            callback()
        except Exception:
            log.exception("error in a callback of a session")


def current_loop() -> SessionLoop | None:
    """Return the loop of the served page or notebook cell; None in a script, which has no event loop."""
    document = pn.state.curdoc
    if document is None or document.session_context is None:
        loop = _running_loop()
        return SessionLoop(loop) if loop is not None else None
    known = document.template_variables  # it ends with the document
    if LOOP_VARIABLE not in known:
        loop = _running_loop() or _server_loop(document)
        if loop is None:
            return None
        known[LOOP_VARIABLE] = SessionLoop(loop, document)
    found: SessionLoop = known[LOOP_VARIABLE]
    return found


def drawing_loop() -> SessionLoop | None:
    """Return the served page's loop; None in a script or notebook cell, whose output must be complete."""
    return current_loop() if pn.state.curdoc is not None else None


def take_steps(loop: SessionLoop | None, steps: Iterable[Step]) -> None:
    """Take steps in turns of a served page, so that they delay no other page; without one, at once."""
    if loop is not None and loop.is_served:
        loop.draw(lambda: steps)
        return
    left = deque(steps)
    while left:
        left.extendleft(reversed(list(left.popleft()() or ())))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _server_loop(document: Document) -> asyncio.AbstractEventLoop | None:
    """Return the server's loop: a page may be built on a worker thread, which has none."""
    session: Any = document.session_context
    application = session.server_context.application_context
    loop: asyncio.AbstractEventLoop | None = application.io_loop.asyncio_loop if application else None
    return loop
