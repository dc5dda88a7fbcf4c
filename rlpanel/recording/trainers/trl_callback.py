"""What a trainer tells its callbacks: scalars, steps, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Heard = Callable[..., None]


class RecordingCallback:
    """A callback as transformers calls one; its base class is not imported, so it answers to every event.

    Parameters
    ----------
    **events
        What to call for an event, with its arguments.
    """

    def __init__(self, **events: Heard) -> None:
        self._events = events

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return self._events.get(name, _ignore)


def _ignore(*_: Any, **__: Any) -> None:
    """An event that nobody listens for."""
