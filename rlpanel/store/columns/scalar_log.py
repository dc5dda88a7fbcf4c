"""Reads the trainer's own scalars (loss, learning rate, ...) and merges them into one series per name.

A run may have several scalar files: JSON lines of rlpanel or prime-rl, a checkpoint's trainer state,
TensorBoard events from before and after a resume. If a name has two values at one step, the better file
wins (see `rlpanel.sources.scalars.find_scalars`), and within a file the later line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlpanel.errors import describe_error, install_command
from rlpanel.sources.files.file_access import AnyPath, Unread, reason_of
from rlpanel.sources.records.record_types import BadLine
from rlpanel.sources.scalars.find_scalars import FoundScalars, find_scalars
from rlpanel.sources.scalars.scalar_files import Points, ScalarFile
from rlpanel.store.columns.columns import Column

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

#: Names of the learning rate and of the gradient norm in the logs of trainers.
LEARNING_RATE = re.compile(r"(^|[/_.])(lr|learning_rate)($|[/_.])", re.IGNORECASE)
GRADIENT_NORM = re.compile(r"grad.*norm", re.IGNORECASE)
#: Limit for scalar names: a log with ever new names must not fill the memory.
MAX_NAMES = 2048
#: Number of bad lines kept per file.
MAX_BAD_LINES = 100

#: Steps and values in the order of a file, both of shape (P,).
Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Series:
    """One scalar over the steps.

    Attributes
    ----------
    steps : ndarray of int64, shape (P,)
        Unique and ascending.
    values : ndarray of float64, shape (P,)
        As logged, including NaN and ±Infinity.
    """

    steps: np.ndarray
    values: np.ndarray

    def at(self, step: int) -> float:
        """Return the value at a step; NaN if none was logged."""
        position = int(np.searchsorted(self.steps, step))
        is_logged = position < len(self.steps) and self.steps[position] == step
        return float(self.values[position]) if is_logged else float("nan")

    def at_steps(self, steps: np.ndarray) -> np.ndarray:
        """Return the values at ascending steps, shape (S,); NaN where none was logged."""
        values = np.full(len(steps), np.nan)
        _, here, there = np.intersect1d(steps, self.steps, assume_unique=True, return_indices=True)
        values[here] = self.values[there]
        return values


_EMPTY = Series(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Scalars:
    """All scalars of a run at one version; immutable.

    Attributes
    ----------
    version : int
        Goes up with every change.
    files : tuple of str
        Paths of the scalar files, relative to the run's folder.
    """

    version: int = 0
    files: tuple[str, ...] = ()
    _parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    _series: dict[str, Series] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Scalar names in the order in which they were read."""
        return tuple(self._parts)

    def series(self, name: str) -> Series:
        """Return the series of a name; an empty one if the name is unknown."""
        if name not in self._parts:
            return _EMPTY
        if name not in self._series:
            self._series[name] = _merge_parts(self._parts[name])
        return self._series[name]

    def frame(self) -> pd.DataFrame:
        """Return one row per step, with ``step`` and a column per name; NaN where it was not logged."""
        import pandas as pd

        by_name = {name: self.series(name) for name in self.names}
        steps = np.unique(np.concatenate([_EMPTY.steps, *(series.steps for series in by_name.values())]))
        data: dict[str, np.ndarray] = {"step": steps}
        for name, series in by_name.items():
            data[name] = np.full(len(steps), np.nan)
            data[name][np.searchsorted(steps, series.steps)] = series.values
        return pd.DataFrame(data)


def _merge_parts(parts: tuple[Part, ...]) -> Series:
    """Merge the parts of all files, sorted by ascending priority, into one series."""
    steps = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    if len(steps) > 1 and not (np.diff(steps) > 0).all():
        # Reversed, because `np.unique` keeps the first occurrence and the last value of a step counts.
        steps, positions = np.unique(steps[::-1], return_index=True)
        values = values[::-1][positions]
    return Series(steps, values)


@dataclass
class _File:
    """One scalar file: its reader and the points read so far."""

    reader: ScalarFile
    rank: tuple[int, str]
    generation: int = 0
    columns: dict[str, tuple[Column, Column, int]] = field(default_factory=dict)
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    more: bool = True
    problem: Unread | None = None

    def take(self, points: Points, room: int) -> str:
        """Add points; return the first name that exceeds the limit of ``room`` names, or an empty text."""
        if points.generation != self.generation:
            self.generation, self.columns, self.bad, self.bad_count = points.generation, {}, [], 0
        self.bad_count += len(points.bad)
        self.bad += points.bad[: MAX_BAD_LINES - len(self.bad)]
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
        existing = self.columns.get(name)
        step_column, value_column, rows = existing or (Column(np.int64, 0), Column(np.float64, np.nan), 0)
        step_column.write(rows, np.array(steps, np.int64))
        value_column.write(rows, np.array(values))
        self.columns[name] = (step_column, value_column, rows + len(steps))

    def part(self, name: str) -> Part:
        """Return the file's steps and values of one name, as read so far."""
        step_column, value_column, rows = self.columns[name]
        return step_column.view(rows), value_column.view(rows)


class ScalarLog:
    """Reads a run's scalar files as they grow; used only by the thread that owns the run's index.

    Parameters
    ----------
    folder : path
        The run's folder.
    root : path
        Files outside of this folder are not read.
    """

    def __init__(self, folder: AnyPath, root: AnyPath) -> None:
        self._folder, self._root = folder, root.resolve()
        self._files: dict[str, _File] = {}
        self._left_out = ""
        self._missing_package: FoundScalars | None = None
        self._frozen = Scalars()
        self._changed = False

    def rescan(self) -> None:
        """Update the list of scalar files."""
        all_files = find_scalars(self._folder, self._root)
        readable = {file.path: file for file in all_files if not file.missing_package}
        # A missing package is reported only if no other scalar file can be read.
        self._missing_package = None if readable else next(iter(all_files), None)
        for path in set(self._files) - set(readable):
            del self._files[path]
            self._changed = True
        for path, file in readable.items():
            if path not in self._files:
                self._files[path] = _File(file.open(path, file.name), file.rank)

    def read(self, only: set[str] | None, budget: int) -> bool:
        """Read at most ``budget`` bytes from each file; True if something changed since `freeze`.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with unread data are read as well. All by default.
        """
        for path, file in self._files.items():
            wanted = only is None or file.more or file.problem or path in only
            if wanted and (file.more or file.reader.changed()):
                self._read_file(file, budget)
        return self._changed

    @property
    def more(self) -> bool:
        """True if a file has unread data that can be read now."""
        return any(file.more for file in self._files.values())

    @property
    def unread(self) -> list[Unread]:
        """The files that cannot be read at the moment."""
        return [file.problem for file in self._files.values() if file.problem]

    @property
    def problems(self) -> list[str]:
        """Messages about what is left out, besides the files of `unread`."""
        problems = []
        if self._missing_package is not None:
            extra = self._missing_package.missing_package
            problems.append(
                f"{self._missing_package.name} is not read, because the package {extra!r} is not installed: "
                f"{install_command(extra)}, then start again"
            )
        if self._left_out:
            problems.append(
                f"the trainer's log has more than {MAX_NAMES} names: "
                f"{self._left_out!r} and later ones are left out"
            )
        return problems

    @property
    def bad(self) -> list[tuple[str, BadLine]]:
        """The first lines of each file that hold no valid scalar, with the file's name."""
        return [(file.reader.name, bad) for file in self._files.values() for bad in file.bad]

    @property
    def bad_count(self) -> int:
        """Number of lines that hold no valid scalar, including those beyond `MAX_BAD_LINES`."""
        return sum(file.bad_count for file in self._files.values())

    def freeze(self) -> Scalars:
        """Return an immutable view of everything read so far."""
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

    def _read_file(self, file: _File, budget: int) -> None:
        before = file.problem
        try:
            points = file.reader.poll(budget)
        except OSError as error:
            file.problem = Unread(file.reader.name, reason_of(error))
            file.more = False
        except MemoryError:
            raise
        except Exception as error:  # the trainer's scalars must not stop the reading of the samples
            log.debug("%s cannot be read", file.reader.path, exc_info=True)
            file.problem = Unread(file.reader.name, describe_error(error), "what comes before is kept")
            file.more = False
        else:
            file.problem = None
            void = points.generation != file.generation
            self._left_out = file.take(points, MAX_NAMES) or self._left_out
            self._changed |= bool(points.rows or points.bad or void)
        self._changed |= before != file.problem
