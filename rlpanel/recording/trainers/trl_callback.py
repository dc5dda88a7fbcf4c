"""A duck-typed transformers callback that forwards a trainer's events (log, step end, train end)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., None]


class RecordingCallback:
    """Callback for a transformers trainer; handles every event, because its base class is not imported.

    Parameters
    ----------
    **events
        Handlers by name of the event; each gets the event's arguments. Other events are ignored.
    """

    def __init__(self, **events: Handler) -> None:
        self._events = events

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return self._events.get(name, _ignore)


def _ignore(*_: Any, **__: Any) -> None:
    """Handler of events that have no handler."""
