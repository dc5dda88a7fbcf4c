"""Bound methods wrapped on one instance, and put back."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("rlpanel.recording")


class Patches:
    """The methods that were wrapped, so that they can be put back.

    A wrapper that somebody else wrapped again stays where it is and passes everything through.
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
        """Call ``around(original, args, kwargs)`` in place of a method; False where there is none."""
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
        """Set an attribute to something else."""
        self._undo.append((owner, name, value, name in vars(owner), vars(owner).get(name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back."""
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
    """Runs what recording does beside training; its first error is said once and ends that part alone."""

    def __init__(self) -> None:
        self.broken: set[str] = set()

    def __call__(self, what: str, work: Callable[..., Any], *args: Any) -> Any:
        """``work(*args)``, or None where it fails or failed before."""
        if what in self.broken:
            return None
        try:
            return work(*args)
        except Exception as error:  # whatever recording meets, training goes on
            self.broken.add(what)
            log.warning("rlpanel: %s is no longer recorded: %s: %s", what, type(error).__name__, error)
            log.debug("rlpanel", exc_info=True)
            return None
