"""Creates contexts that follow a run, for views in a notebook or in another application's page."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.event_loop import SessionLoop, current_loop
from rlpanel.panels.session.session import Session
from rlpanel.queries.run_data import RunData
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
