"""A run and its changes, brought to views that stand in a notebook or in a page of somebody's own."""

from __future__ import annotations

import time
import weakref
from typing import Any

from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.event_loop import SessionLoop, current_loop
from rlpanel.panels.session.session import Session
from rlpanel.store.run import Run

#: Seconds after which a step that nobody adds to any more counts as complete.
_SETTLED = 1.1


def context_of(run: Run, **selected: Any) -> Context:
    """A context that follows ``run`` for as long as somebody holds it and the run is not closed.

    Parameters
    ----------
    run : Run
    **selected
        Parameters of `Selection`; a step given ends following the newest.
    """
    given = {name: value for name, value in selected.items() if value is not None}
    if "step" in given:
        given["follow"] = False
    context = Context(selection=Selection(run=run.name, **given))
    context.param.update(index=run.index, view=run.view)
    place = current_loop()
    if place is not None:
        _follow(run, context, place)
    return context


def _follow(run: Run, context: Context, place: SessionLoop) -> None:
    """Tell the context of changes; it is held weakly, so that a view that is gone is not drawn for ever."""
    held = weakref.ref(context, lambda _: forget())

    def draw(_: object = None) -> None:
        shown = held()
        if shown is not None:
            shown.param.update(view=run.view, now=time.time())

    def drawn(_: object) -> None:
        draw()
        place.call_later(_SETTLED, draw)  # by then the newest step may count as complete

    session = Session(place, drawn)
    forget = run.listen(lambda changed: session.notify(changed) if changed is run.index else None)
    place.on_gone(forget)
