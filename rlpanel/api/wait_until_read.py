"""Waits until the reader has indexed everything that is on disk."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rlpanel.errors import RLPanelError
from rlpanel.queries.terminal_progress import TerminalProgress
from rlpanel.store.index.run_index import RunIndex

if TYPE_CHECKING:
    from rlpanel.store.index.reader import Reader


def wait_until_read(index: RunIndex, service: Reader, timeout: float | None, *, progress: bool) -> bool:
    """Wait as `Run.wait` does; False if the timeout expires first."""
    changed = threading.Event()
    unsubscribe = service.listen(lambda _: changed.set())
    deadline = None if timeout is None else time.monotonic() + timeout
    terminal = TerminalProgress(index.name) if progress else None
    try:
        while not (index.snapshot.version and index.snapshot.progress.caught_up):
            if deadline is not None and time.monotonic() > deadline:
                return False
            if service.failure or service.stopped:
                reason = service.failure or "the reader was stopped"
                raise RLPanelError(f"{index.name} cannot be read: {reason}")
            if terminal:
                terminal(index.snapshot.progress)
            changed.wait(0.1)
            changed.clear()
        return True
    finally:
        unsubscribe()
        if terminal:
            terminal.end()
