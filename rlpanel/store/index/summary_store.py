"""Summaries of all runs of a process, kept and saved for the next one.

Each published snapshot of a run and each check of the rules notes its part; no run is read for a summary. If
the columns of a run are saved, so is its summary.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.cache.run_cache import read_saved_text, save_text
from rlpanel.store.index.folder_settings import MAX_SETTINGS, Setting
from rlpanel.store.index.last_lines import newest_step
from rlpanel.store.index.run_summary import (
    FILE,
    MAX_CHARACTERS,
    OF_CHECKS,
    RunSummary,
    parse_summary,
    summary_text,
)

#: Minimum number of seconds between two saves for findings of the same severity.
SAVE_EVERY = 60.0
#: Number of runs of a list whose last lines are read, and seconds until this may be done again.
MAX_RUNS, AGAIN = 200, 60.0
#: Number of runs whose files are read between two updates of a list.
_BATCH = 50
_UNKNOWN = RunSummary()

_Run = TypeVar("_Run")


class SummaryStore:
    """The summaries that are known, by the run's folder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, RunSummary] = {}
        self._saved: dict[str, tuple[RunSummary, float]] = {}  # as on disk, and when a finding was saved
        self._looks: dict[str, tuple[int, float]] = {}  # bytes and time when last lines were read

    def of(self, run: AnyPath) -> RunSummary:
        """Return what is known of a run; nothing is read for it."""
        return self._known.get(str(run), _UNKNOWN)

    def note(self, run: AnyPath, summary: RunSummary, settings: Mapping[str, Setting] | None = None) -> None:
        """Note the summary of a run's new snapshot; its finding stays as it was.

        Parameters
        ----------
        run : path
        summary : RunSummary
        settings : mapping, optional
            Settings of other files, which follow those of the summary.
        """
        self._load(run)
        both = {**summary.config, **(settings or {}), **summary.config}
        kept: dict[str, Any] = {"config": dict(islice(both.items(), MAX_SETTINGS))}
        with self._lock:
            old = self.of(run)
            kept |= {name: getattr(old, name) for name in OF_CHECKS}
            self._known[str(run)] = replace(summary, **kept)

    def note_finding(
        self,
        run: AnyPath,
        severity: str,
        sentence: str,
        step: int,
        now: float,
        *,
        save: bool,
        onset: int | None = None,
        counts: tuple[int, int] = (0, 0),
    ) -> None:
        """Note the worst finding of a run; ``save`` it if its severity changed, or at most once a minute.

        Parameters
        ----------
        onset : int, optional
            The finding's first step.
        counts : (int, int)
            Number of alarms and of warnings.
        """
        self._load(run)
        found = severity, sentence[:MAX_CHARACTERS], step
        with self._lock:
            old = self.of(run)
            summary = replace(
                old,
                severity=severity,
                finding=found[1],
                checked=step,
                onset=onset,
                alarms=counts[0],
                warnings=counts[1],
                checked_bytes=old.bytes,
                unchecked="",
                unreadable=False,
            )
            self._known[str(run)] = summary
            saved, saved_at = self._saved[str(run)]
        is_other = (saved.severity, saved.finding, saved.checked) != found
        if save and is_other and (saved.severity != severity or now - saved_at >= SAVE_EVERY):
            self._write(run, summary, now)

    def note_check(self, run: AnyPath, summary: RunSummary, *, is_open: bool) -> None:
        """Note what a check in another process found; of a run that is open here, its findings only."""
        self._load(run)
        with self._lock:
            old = self.of(run)
            kept = is_open and old.samples > 0
            found = {name: getattr(summary, name) for name in OF_CHECKS}
            self._known[str(run)] = replace(old, **found) if kept else summary

    def note_unchecked(self, run: AnyPath, reason: str, size: int, *, unreadable: bool = False) -> None:
        """Note why a run could not be checked, its size in bytes, and if it cannot be read at all."""
        self._load(run)
        with self._lock:
            cut = reason[:MAX_CHARACTERS]
            self._known[str(run)] = replace(
                self.of(run), unchecked=cut, checked_bytes=size, unreadable=unreadable
            )

    def save(self, run: AnyPath) -> None:
        """Save the summary of a run beside its columns; nothing happens if no columns are saved."""
        if self.of(run).samples:
            self._write(run, self.of(run), self._saved[str(run)][1])

    def read_saved(self, runs: Sequence[AnyPath]) -> Iterator[int]:
        """Read the saved summaries of unknown runs, and yield their number after every `_BATCH` runs."""
        return _in_batches(self._load, [run for run in runs if str(run) not in self._known])

    def read_last_lines(self, runs: Sequence[RunInfo], reading: Reading | None = None) -> Iterator[int]:
        """Read the last lines of runs that were never read, and yield their number as `read_saved` does."""
        due = (run for run in runs[:MAX_RUNS] if self._is_due(run))
        return _in_batches(lambda run: self._look(run, reading), due)

    # -- internals -------------------------------------------------------------------------------

    def _load(self, run: AnyPath) -> None:
        """Read the saved summary of a run unless the run is known."""
        if str(run) not in self._known:
            saved = parse_summary(read_saved_text(run, FILE))
            with self._lock:
                self._saved.setdefault(str(run), (saved, 0.0))
                self._known.setdefault(str(run), saved)

    def _write(self, run: AnyPath, summary: RunSummary, checked_at: float) -> None:
        self._saved[str(run)] = summary, checked_at
        save_text(run, FILE, summary_text(summary))

    def _is_due(self, run: RunInfo) -> bool:
        """Return whether a local run was never read, and its last lines neither, or long before it grew."""
        looked_at, at = self._looks.get(str(run.path), (-1, -math.inf))
        grew = looked_at != run.bytes and time.monotonic() - at >= AGAIN
        return isinstance(run.path, Path) and not self.of(run.path).samples and grew

    def _look(self, run: RunInfo, reading: Reading | None) -> None:
        """Note the newest step in the last lines of a run, unless the run was read meanwhile."""
        step, reward = newest_step(run, reading)
        self._looks[str(run.path)] = run.bytes, time.monotonic()
        self._load(run.path)
        with self._lock:
            if not self.of(run.path).samples:
                self._known[str(run.path)] = replace(self.of(run.path), step=step, reward=reward)


def _in_batches(read: Callable[[_Run], None], runs: Iterable[_Run]) -> Iterator[int]:
    """Read something of each run, and yield the number of runs after every `_BATCH` and at the end."""
    count = 0
    for count, run in enumerate(runs, start=1):
        read(run)
        if count % _BATCH == 0:
            yield count
    if count % _BATCH:
        yield count
