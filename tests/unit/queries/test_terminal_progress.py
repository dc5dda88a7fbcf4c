"""The progress line on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from rlpanel.queries.read_whole_run import TerminalProgress
from rlpanel.store.snapshot.snapshot import Progress


class Terminal(io.StringIO):
    """A stream that collects what a terminal would get."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_name_cannot_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = TerminalProgress("red\x1b[31m\a")
    progress(Progress())
    progress.end()
    assert terminal.getvalue().removeprefix("\r").removesuffix("\n").isprintable()
