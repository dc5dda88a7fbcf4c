"""The trainer's own scalars by name, on the rollouts' step axis.

Several files may tell of one run: rlpanel's or prime-rl's lines, a checkpoint's trainer state, TensorBoard's
events before and after a resume. Of two values of one name at one step the later line of the better file
counts (see `rlpanel.sources.scalars.discovery`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rlpanel.sources.files.files import AnyPath
from rlpanel.sources.files.unread import Unread, reason_of
from rlpanel.sources.records.record_types import BadLine
from rlpanel.sources.scalars.discovery import FoundScalars, find
from rlpanel.sources.scalars.scalar_source import Points, ScalarFile
from rlpanel.store.columns.columns import Column

#: Most names; a log that makes up names must not fill the memory.
MOST_NAMES = 2048
#: Bad lines kept for each file.
BAD_KEPT = 100

#: Steps and values in the order of a file, both of shape (P,).
Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Series:
    """One scalar over the steps.

    Attributes
    ----------
    steps : ndarray of int64, shape (P,)
        Each once, rising.
    values : ndarray of float64, shape (P,)
        NaN and ±Infinity as they were logged.
    """

    steps: np.ndarray
    values: np.ndarray

    def at(self, step: int) -> float:
        """The value at a step; NaN where none was logged."""
        place = int(np.searchsorted(self.steps, step))
        found = place < len(self.steps) and self.steps[place] == step
        return float(self.values[place]) if found else float("nan")


_NOTHING = Series(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Scalars:
    """All scalars of a run at one version; immutable.

    Attributes
    ----------
    version : int
        Goes up with every change.
    files : tuple of str
        Where they come from, below the run.
    """

    version: int = 0
    files: tuple[str, ...] = ()
    _parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    _known: dict[str, Series] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order they were met."""
        return tuple(self._parts)

    def series(self, name: str) -> Series:
        """One scalar; an unknown name gives an empty series."""
        if name not in self._parts:
            return _NOTHING
        if name not in self._known:
            self._known[name] = _join(self._parts[name])
        return self._known[name]

    def frame(self) -> pd.DataFrame:
        """A row a step: ``step`` and a column a name; NaN where it was not logged."""
        found = {name: self.series(name) for name in self.names}
        steps = np.unique(np.concatenate([_NOTHING.steps, *(series.steps for series in found.values())]))
        data: dict[str, np.ndarray] = {"step": steps}
        for name, series in found.items():
            data[name] = np.full(len(steps), np.nan)
            data[name][np.searchsorted(steps, series.steps)] = series.values
        return pd.DataFrame(data)


def _join(parts: tuple[Part, ...]) -> Series:
    """Parts, those that count least first, as one series."""
    steps = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    if len(steps) > 1 and not (np.diff(steps) > 0).all():
        # From the end, because the last value of a step counts.
        steps, at = np.unique(steps[::-1], return_index=True)
        values = values[::-1][at]
    return Series(steps, values)


@dataclass
class _File:
    """What was read of one file."""

    reader: ScalarFile
    rank: tuple[int, str]
    generation: int = 0
    columns: dict[str, tuple[Column, Column, int]] = field(default_factory=dict)
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    more: bool = True
    problem: str = ""

    def take(self, points: Points, room: int) -> str:
        """Add points; the first name beyond ``room`` names, or an empty text."""
        if points.generation != self.generation:
            self.generation, self.columns, self.bad, self.bad_count = points.generation, {}, [], 0
        self.bad_count += len(points.bad)
        self.bad += points.bad[: BAD_KEPT - len(self.bad)]
        self.more = points.more
        gathered: dict[str, tuple[list[int], list[float]]] = {}
        left_out = ""
        for step, numbers in points.rows:
            for name, value in numbers.items():
                if name not in gathered:
                    if name not in self.columns and len({*self.columns, *gathered}) >= room:
                        left_out = left_out or name
                        continue
                    gathered[name] = ([], [])
                gathered[name][0].append(step)
                gathered[name][1].append(value)
        for name, (steps, values) in gathered.items():
            self._append(name, steps, values)
        return left_out

    def _append(self, name: str, steps: list[int], values: list[float]) -> None:
        known = self.columns.get(name)
        at, number, rows = known or (Column(np.int64, 0), Column(np.float64, np.nan), 0)
        at.write(rows, np.array(steps, np.int64))
        number.write(rows, np.array(values))
        self.columns[name] = (at, number, rows + len(steps))

    def part(self, name: str) -> Part:
        """The file's points of one name, as of now."""
        at, number, rows = self.columns[name]
        return at.view(rows), number.view(rows)


class ScalarLog:
    """Follows a run's scalar files; owned by the thread that owns the run's index.

    Parameters
    ----------
    folder : path
        The run's folder.
    root : path
        Nothing outside of it is read.
    """

    def __init__(self, folder: AnyPath, root: AnyPath) -> None:
        self._folder, self._root = folder, root.resolve()
        self._files: dict[str, _File] = {}
        self._left_out = ""
        self._lacking: FoundScalars | None = None
        self._frozen = Scalars()
        self._changed = False

    def rescan(self) -> None:
        """Look for files that came or went."""
        all_files = find(self._folder, self._root)
        found = {file.path: file for file in all_files if not file.lacks}
        # Where another file tells of the run, nobody need install anything.
        self._lacking = None if found else next(iter(all_files), None)
        for path in set(self._files) - set(found):
            del self._files[path]
            self._changed = True
        for path, file in found.items():
            if path not in self._files:
                self._files[path] = _File(file.open(path, file.name), file.rank)

    def read(self, only: set[str] | None, budget: int) -> bool:
        """One turn: at most one budget from each file; True if something changed since `freeze`.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with more waiting are read as well. All by default.
        """
        for path, file in self._files.items():
            wanted = only is None or file.more or file.problem or path in only
            if wanted and (file.more or file.reader.changed()):
                self._turn(file, budget)
        return self._changed

    @property
    def more(self) -> bool:
        """Whether more is waiting that can be read now."""
        return any(file.more for file in self._files.values())

    @property
    def problems(self) -> list[str]:
        """What cannot be read just now, in words."""
        problems = [file.problem for file in self._files.values() if file.problem]
        if self._lacking is not None:
            extra = self._lacking.lacks
            problems.append(
                f"{self._lacking.name} is not read, because the package {extra!r} is not installed: "
                f"pip install 'rlpanel[{extra}]', then start again"
            )
        if self._left_out:
            problems.append(
                f"the trainer's log makes up names: {self._left_out!r} and later ones are left out"
            )
        return problems

    @property
    def bad(self) -> list[tuple[str, BadLine]]:
        """What is no scalar, with its file's name."""
        return [(file.reader.name, bad) for file in self._files.values() for bad in file.bad]

    @property
    def bad_count(self) -> int:
        """How much is no scalar, also beyond what is kept."""
        return sum(file.bad_count for file in self._files.values())

    def freeze(self) -> Scalars:
        """All that was read, for others to look at."""
        if self._changed:
            self._changed = False
            files = sorted(self._files.values(), key=lambda file: file.rank)
            names = dict.fromkeys(name for file in reversed(files) for name in file.columns)
            self._frozen = Scalars(
                self._frozen.version + 1,
                tuple(file.reader.name for file in files),
                {name: tuple(f.part(name) for f in files if name in f.columns) for name in names},
            )
        return self._frozen

    def _turn(self, file: _File, budget: int) -> None:
        before = file.problem
        try:
            points = file.reader.poll(budget)
        except OSError as error:
            file.problem = str(Unread(file.reader.name, reason_of(error)))
            file.more = False
        else:
            file.problem = ""
            void = points.generation != file.generation
            self._left_out = file.take(points, MOST_NAMES) or self._left_out
            self._changed |= bool(points.rows or points.bad or void)
        self._changed |= before != file.problem
