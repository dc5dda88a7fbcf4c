"""Summaries of all runs of a process, also of runs that were never read, by their last lines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory, RunInfo, open_file
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Record
from rlpanel.store.backlog.range_reader import first_line_start, last_line_start
from rlpanel.store.cache.run_cache import read_saved_text, save_text
from rlpanel.store.columns.row_table import REPEATED
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN
from rlpanel.store.columns.step_stats import COUNT, MAX, MEAN, MIN
from rlpanel.store.index.run_folder import Setting
from rlpanel.store.index.run_summary import (
    FILE,
    MAX_CHARACTERS,
    OF_CHECKS,
    TREND_POINTS,
    UNKNOWN,
    RunSummary,
    parse_summary,
    summary_text,
)
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step

# -- last lines ----------------------------------------------------------------------------------------
# The last lines of a run that was never read: its newest step and reward, and its prompts, for lists.
#
# At most `TAIL_BYTES` of a run's newest file are read, and only of local files of plain lines. A reward is
# the mean of the newest step's samples among these lines, so it may miss samples of other ranks.


#: Bytes of a file that are read.
TAIL_BYTES = 256 << 10


def newest_step(run: RunInfo, reading: Reading | None = None) -> tuple[int | None, float | None]:
    """Return the newest step of training in the last lines of a run's newest file, and its mean reward.

    The step is None if these lines hold no whole sample, the reward if it was not logged.
    """
    records = _newest_records(run, reading)
    trained = [record for record in records if record.labels.get(SPLIT_COLUMN, TRAIN) == TRAIN]
    if not trained:
        return None, None
    step = max(record.step for record in trained)
    rewards = [record.numbers.get("reward", math.nan) for record in trained if record.step == step]
    known = [reward for reward in rewards if math.isfinite(reward)]
    return step, sum(known) / len(known) if known else None


def last_prompts(run: RunInfo, reading: Reading | None = None) -> np.ndarray:
    """Return the hashes of the different prompts in the last lines of a run's newest file, sorted."""
    texts = {record.texts.get("prompt") for record in _newest_records(run, reading)} - {None, ""}
    return np.array(sorted(xxh3_64_intdigest(str(text).encode()) for text in texts), np.uint64)


def most_shared(prompts: np.ndarray, runs: Sequence[RunInfo]) -> Iterator[str]:
    """Yield the name of the run that shares most prompts, once; empty if none shares any.

    Only the last lines of the runs are read, so it is an estimate.

    Parameters
    ----------
    prompts : ndarray of uint64
        Hashes of the prompts to look for.
    runs : sequence of RunInfo
    """
    shared = [int(np.isin(last_prompts(run), prompts).sum()) for run in runs]
    best = int(np.argmax(shared)) if shared else 0
    yield runs[best].name if shared and shared[best] else ""


def _newest_records(run: RunInfo, reading: Reading | None) -> list[Record]:
    """Return the samples in the last lines of a run's newest file; none if they cannot be read."""
    reading = reading or Reading.from_environment()
    try:
        files = Directory(run.root or run.path, reading).files(run.path)
        newest = max(files, key=lambda file: (file.status.st_mtime, file.name), default=None)
        if newest is None:
            return []
        reader = open_file(newest, reading)
        # Other readers need the whole file: it is compressed, or a table or document.
        return _last_records(reader, newest.status.st_size) if type(reader) is JsonlFile else []
    except Exception:  # the list says nothing; an error is shown when the run is opened
        return []


def _last_records(reader: JsonlFile, size: int) -> list[Record]:
    """Return the samples of the whole lines among the last bytes of a file."""
    end = last_line_start(reader.path, size, TAIL_BYTES)
    start = first_line_start(reader.path, max(0, end - TAIL_BYTES), end)
    if start >= end:
        return []
    tail = JsonlFile(reader.path, reader.name, reader.adapter, reader.tail.line_bytes, end)
    if not tail.start_at(start):
        return []
    return [record for chunk in tail.poll(end - start) for record in chunk.records]


# -- summary store -------------------------------------------------------------------------------------
# Summaries of all runs of a process: computed from their snapshots, kept, and saved for the next process.
#
# Each published snapshot of a run and each check of the rules notes its part; no run is read for a summary.
# If the columns of a run are saved, so is its summary.


#: Minimum number of seconds between two saves for findings of the same severity.
SAVE_EVERY = 60.0
#: Number of runs of a list whose last lines are read, and seconds until this may be done again.
MAX_RUNS, AGAIN = 200, 60.0
#: Number of runs whose files are read between two updates of a list.
_BATCH = 50

#: Columns of the mean KL divergence and of the response length, the best first.
_KL, _LENGTH = ("kl_k3_mean", "kl"), ("response_tokens", "response_chars")

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
        return self._known.get(str(run), UNKNOWN)

    def note(self, run: AnyPath, summary: RunSummary) -> None:
        """Note the summary of a run's new snapshot; its finding stays as it was."""
        self._load(run)
        with self._lock:
            old = self.of(run)
            self._known[str(run)] = replace(summary, **{name: getattr(old, name) for name in OF_CHECKS})

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


def summarize(snapshot: Snapshot, now: float, config: Mapping[str, Setting] | None = None) -> RunSummary:
    """Return the summary of a snapshot without a finding; only statistics of steps are used.

    Parameters
    ----------
    snapshot : Snapshot
    now : float
        Seconds since the epoch: a step whose newest line is younger may be incomplete.
    config : mapping, optional
        Settings of the run, see `run_settings`.
    """
    step = newest_complete_step(snapshot, now)
    if step is None:
        return RunSummary(config=dict(config or {}))
    means = np.empty(0)
    if snapshot.has_number("reward"):
        means = snapshot.steps.stat("reward", MEAN)[: snapshot.steps.position(step) + 1]
    last = float(means[-1]) if len(means) else math.nan
    rows, progress = snapshot.rows_of(step), snapshot.progress
    best = int(np.nanargmax(means)) if np.isfinite(means).any() else None
    best_step = int(snapshot.steps.values[best]) if best is not None else None
    return RunSummary(
        samples=snapshot.all_samples,
        excluded=int(np.count_nonzero(snapshot.state > REPEATED)),
        step=step,
        reward=_rounded(last) if math.isfinite(last) else None,
        trend=_trend(means[np.isfinite(means)]),
        complete=progress.caught_up and not progress.halted,
        bytes=progress.bytes_total,
        newest_line=snapshot.newest_line,
        split=snapshot.split,
        doubt=_doubt(snapshot, step) if progress.caught_up else "",
        first=int(snapshot.steps.values[0]),
        error=_error(snapshot, rows),
        kl=_mean(snapshot, _KL, rows),
        length=_mean(snapshot, _LENGTH, rows),
        best=_rounded(float(means[best])) if best is not None else None,
        best_step=best_step,
        best_error=_error(snapshot, snapshot.rows_of(best_step)) if best_step is not None else None,
        tokens=_tokens(snapshot),
        seconds=_seconds(snapshot),
        config=dict(config or {}),
    )


def _in_batches(read: Callable[[_Run], None], runs: Iterable[_Run]) -> Iterator[int]:
    """Read something of each run, and yield the number of runs after every `_BATCH` and at the end."""
    count = 0
    for count, run in enumerate(runs, start=1):
        read(run)
        if count % _BATCH == 0:
            yield count
    if count % _BATCH:
        yield count


def _doubt(snapshot: Snapshot, step: int) -> str:
    """Return the kind of the remark that puts the step's reward in doubt; wrong groups do not."""
    kinds = (remark.kind for remark in snapshot.remarks if step in remark.steps)
    return next((kind for kind in kinds if kind != "groups"), "")


def _trend(means: np.ndarray) -> tuple[float, ...]:
    if len(means) < 2:
        return ()
    parts = np.array_split(means, min(len(means), TREND_POINTS))
    return tuple(_rounded(float(part.mean())) for part in parts)


def _rounded(value: float) -> float:
    """Round to six significant digits, because summaries are sent and saved as text."""
    return float(f"{value:.6g}")


def _mean(snapshot: Snapshot, columns: Sequence[str], rows: np.ndarray) -> float | None:
    """Return the mean of the first column that has finite values at some rows; None without one."""
    for name in columns:
        values = snapshot.counted(name, rows) if snapshot.has_number(name) else np.empty(0)
        values = values[np.isfinite(values)]
        if len(values):
            return _rounded(float(values.mean()))
    return None


def _tokens(snapshot: Snapshot) -> float | None:
    """Return the number of tokens of all responses; None if it is not logged."""
    name = _LENGTH[0]
    if not snapshot.has_number(name):
        return None
    sums = snapshot.steps.stat(name, COUNT) * snapshot.steps.stat(name, MEAN)
    return _rounded(float(np.nansum(sums))) if np.isfinite(sums).any() else None


def _seconds(snapshot: Snapshot) -> float | None:
    """Return the seconds from the first line to the last one; None if lines have no time."""
    if "time" not in snapshot.steps.columns:
        return None
    first, last = snapshot.steps.stat("time", MIN), snapshot.steps.stat("time", MAX)
    if not (np.isfinite(first).any() and np.isfinite(last).any()):
        return None
    return _rounded(float(np.nanmax(last) - np.nanmin(first)))


def _error(snapshot: Snapshot, rows: np.ndarray) -> float | None:
    """Return the standard error of the mean reward at some rows."""
    values = snapshot.counted("reward", rows) if snapshot.has_number("reward") else np.empty(0)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return _rounded(error) if math.isfinite(error) else None
