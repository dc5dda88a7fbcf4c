"""Hooks into a trainer: replaced methods, a callback, and a guard against errors of recording in training."""

from __future__ import annotations

import functools
import logging
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


log = logging.getLogger("rlpanel.recording")


class Patches:
    """Patched attributes with their originals, so that they can be restored.

    A wrapper that other code has wrapped again stays in place and only calls the original.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, bool, Any]] = []
        self.active = True

    def wrap(
        self,
        owner: Any,
        name: str,
        around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any],
    ) -> bool:
        """Make a method call ``around(original, args, kwargs)``; return False if there is no such method."""
        original = getattr(owner, name, None)
        if not callable(original):
            return False

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(original, args, kwargs) if self.active else original(*args, **kwargs)

        own = name in vars(owner)
        self._undo.append((owner, name, wrapped, own, vars(owner).get(name)))
        setattr(owner, name, wrapped)
        return True

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute's value."""
        self._undo.append((owner, name, value, name in vars(owner), vars(owner).get(name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restore all attributes."""
        self.active = False
        for owner, name, wrapped, own, before in reversed(self._undo):
            if vars(owner).get(name) is not wrapped:
                continue
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)
        self._undo.clear()


class Guard:
    """Runs parts of recording inside training; a part that fails is logged once and then skipped."""

    def __init__(self) -> None:
        self.broken: set[str] = set()

    def __call__(self, part: str, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)``, or None if this part fails or has failed before."""
        if part in self.broken:
            return None
        try:
            return work(*args)
        except Exception as error:  # no error of recording may stop training
            self.broken.add(part)
            log.warning("rlpanel: %s is no longer recorded: %s: %s", part, type(error).__name__, error)
            log.debug("rlpanel", exc_info=True)
            return None
