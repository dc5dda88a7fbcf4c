"""An adapter that fails on demand, in ways that no line is to blame for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.discovery import content_format
from rlpanel.sources.records.record_types import Record

FRAGILE = b'{"fragile": %d}\n'


class Fragile:
    """Adapter with errors that no guard of a line takes for an error of that line.

    Attributes
    ----------
    fails_at : str
        Where it fails: ``list`` while files are listed, ``read`` while lines are read; empty if nowhere.
    """

    name = looks = "fragile"

    def __init__(self) -> None:
        self.fails_at = ""

    @classmethod
    def register(cls, monkeypatch: pytest.MonkeyPatch) -> Fragile:
        """Return an adapter that is asked before all others, until the test ends."""
        made = cls()
        monkeypatch.setattr(content_format, "ADAPTERS", (made, *ADAPTERS))
        return made

    @property
    def path_in_run(self) -> re.Pattern[str]:
        if self.fails_at == "list":
            raise ValueError("no\nplace")
        return re.compile("never")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        return "fragile" in document

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        if self.fails_at == "read":
            raise MemoryError
        return [Record(step=document["fragile"], numbers={"reward": 1.0})]
