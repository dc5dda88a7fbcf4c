"""Saved state of a run, as it is kept between two starts of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.sources.records.record_types import NO_HOLE, Hole
from rlpanel.store.columns.columns import Columns


@dataclass(frozen=True)
class OpenFileState:
    """Progress of a file that is read in ranges of ``range_bytes``, from ``start`` up to ``limit``.

    ``parts`` are the ranges already read: start offset and number of lines. Line numbers of their rows are
    relative to the range. ``bad`` are the bad lines, each with the start offset of its range.
    """

    start: int
    limit: int
    lines_before: int
    range_bytes: int
    parts: list[tuple[int, int]]
    bad: list[tuple[int, int, int, str]]

    @classmethod
    def from_json(cls, plain: dict[str, Any] | None) -> OpenFileState | None:
        """Convert from parsed JSON."""
        if plain is None:
            return None
        parts = [(int(start), int(lines)) for start, lines in plain["parts"]]
        return cls(**{**plain, "parts": parts, "bad": [tuple(bad) for bad in plain["bad"]]})


@dataclass(frozen=True)
class FileState:
    """Reading state of one file."""

    name: str
    number: int
    adapter: str
    mark: ReadPosition
    bad_count: int
    blank_count: int
    bad: list[tuple[int, int, str]]
    unsettled: OpenFileState | None = None
    hole: Hole = NO_HOLE

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> FileState:
        """Convert from parsed JSON."""
        hole = Hole(*map(int, plain["hole"]))
        mark, unsettled = ReadPosition.from_json(plain["mark"]), OpenFileState.from_json(plain["unsettled"])
        return cls(**{**plain, "mark": mark, "unsettled": unsettled, "hole": hole})

    def to_json(self) -> dict[str, Any]:
        """Convert to what JSON can hold."""
        return {**asdict(self), "mark": self.mark.plain()}


@dataclass(frozen=True)
class SavedRun:
    """Saved state of a run; rows with a file number that is not in ``files`` are dead.

    So are those in ``dead``: pairs of a row and the row after the last one.
    ``constants`` are the training constants that the rows were computed with. ``missing`` are the columns of
    token metrics that are not in the cache or whose code has changed. If ``has_repeats`` is False, no two
    rows have the same line, step and part.
    """

    columns: Columns
    files: list[FileState]
    newest_line: float
    left_out: str
    constants: list[Any]
    missing: tuple[str, ...] = ()
    has_repeats: bool = True
    dead: Sequence[tuple[int, int]] = ()
