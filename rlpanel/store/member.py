"""What the index of a run knows of one of its files."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlpanel.sources.base import BadLine
from rlpanel.sources.jsonl import JsonlFile
from rlpanel.store.backfill import BAD_KEPT
from rlpanel.store.snapshot import BadLineAt


@dataclass
class Member:
    """One file of a run.

    Attributes
    ----------
    number : int
    reader : JsonlFile
    generation : int
        The one whose rows live.
    bad : list of BadLineAt
        The first bad lines; line 0 while it is not known how many lines stand before.
    more : bool
        Whether lines may be waiting.
    modified : float
        When it was last written, as of the last listing of the folder.
    problem : str
        Why it cannot be read just now; empty while it can.
    gone : bool
    """

    number: int
    reader: JsonlFile
    generation: int = 0
    bad: list[BadLineAt] = field(default_factory=list)
    bad_count: int = 0
    blank_count: int = 0
    more: bool = True
    modified: float = 0.0
    problem: str = ""
    gone: bool = False

    def forget(self) -> None:
        """What was read of it is void."""
        self.bad, self.bad_count, self.blank_count = [], 0, 0

    def keep_bad(self, bad: list[BadLine], count: int) -> None:
        """Count bad lines, and keep the first with their reason."""
        self.bad_count += count
        name, room = self.reader.name, BAD_KEPT - len(self.bad)
        self.bad += [BadLineAt(name, line.line, line.offset, line.reason) for line in bad[:room]]
