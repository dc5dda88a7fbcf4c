"""Cache of step metrics, computed on demand; only steps that changed since the last call are recomputed.

Rows are divided into batches of whole steps, so that what is computed needs memory for one batch only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rlpanel.metrics.engine.column_info import METRICS, Metric, of_level
from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.engine.segments import NO_GROUP, StepRows
from rlpanel.sources.readers.tail import line_hash
from rlpanel.store.snapshot.snapshot import Snapshot

#: Number of rows that are assigned to batches at once.
CHUNK = 1 << 20
#: Row numbers, or all rows.
Rows: TypeAlias = np.ndarray | None


@dataclass(frozen=True)
class StepBatch:
    """Rows of some consecutive steps.

    Attributes
    ----------
    first, last : int
        Positions of its steps in the list of steps; ``last`` is not included.
    rows : ndarray of uint32, shape (N,)
        Row numbers, ascending. They take half the memory of numpy's usual integers.
    """

    first: int
    last: int
    rows: np.ndarray


def step_batches(step: np.ndarray, rows: Rows, steps: np.ndarray, most: int) -> list[StepBatch]:
    """Return rows in batches of whole steps, in the order of the steps.

    Parameters
    ----------
    step : ndarray of int
        Step of each row of a run.
    rows : ndarray of int, or None
        Ascending; None for all. Rows of other steps are left out.
    steps : ndarray of int, shape (S,)
        Ascending.
    most : int
        Largest number of rows of a batch, unless a single step has more.

    Returns
    -------
    list of StepBatch
        At least one; all steps are in one of them.
    """
    counts = np.zeros(len(steps), np.int64)
    for _, position in _chunks(step, rows, steps):
        counts += np.bincount(position, minlength=len(steps))
    starts = _starts(counts, most)
    batch_of_step = np.repeat(np.arange(len(starts)), np.diff([*starts, len(steps)]))
    batch_of_step = batch_of_step.astype(np.min_scalar_type(len(starts)))  # numpy sorts small integers faster
    parts: list[list[np.ndarray]] = [[] for _ in starts]
    for chosen, position in _chunks(step, rows, steps):
        batch = batch_of_step[position]
        order = np.argsort(batch, kind="stable")
        bounds = np.searchsorted(batch[order], np.arange(len(starts) + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            parts[number].append(chosen[order[bounds[number] : bounds[number + 1]]])
    ends = [*starts[1:], len(steps)]
    return [
        StepBatch(first, last, np.concatenate([*part, np.empty(0, np.uint32)]))
        for first, last, part in zip(starts, ends, parts, strict=True)
    ]


def _chunks(step: np.ndarray, rows: Rows, steps: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield row numbers chunk by chunk, and the position of their steps."""
    count = len(step) if rows is None else len(rows)
    for start in range(0, count if len(steps) else 0, CHUNK):
        end = min(count, start + CHUNK)
        chosen = np.arange(start, end, dtype=np.uint32) if rows is None else rows[start:end].astype(np.uint32)
        of = step[start:end] if rows is None else step[chosen]
        position = np.searchsorted(steps, of)
        position[position == len(steps)] = 0
        known = steps[position] == of
        yield (chosen, position) if known.all() else (chosen[known], position[known])


def _starts(counts: np.ndarray, most: int) -> list[int]:
    """Return the position of each batch's first step, from the number of rows of each step."""
    starts, size = [0], 0
    for position, count in enumerate(counts.tolist()):
        if size and size + count > most:
            starts.append(position)
            size = 0
        size += count
    return starts


#: Number of rows processed at a time, so that their columns stay in the processor's cache.
ROWS = 32_768
#: Up to this many samples, all steps are computed to find the metrics that have a value.
EXACT = 131_072
#: Up to this many steps, their rows are those that the snapshot remembers.
_FEW_STEPS = 2
#: Minimum share of rows with a prompt that others of the step share, for prompts to count as groups. A prompt
#: that was drawn twice by chance is not a group.
GROUPED = 0.5

#: Start of the names of inputs that tell whether a sample has a status.
_STATUS = "status_"
#: Most characters of an error, which may quote a value of the log.
_MAX_REASON = 200
#: Hash of a text that was not logged.
NO_TEXT = np.uint64(line_hash(b""))


@dataclass(frozen=True)
class _CachedMetric:
    """A metric's value at each step of one version."""

    version: int
    constants: Constants
    steps: np.ndarray
    values: np.ndarray


#: Steps of an earlier result, positions of those that are as they were, and the mask of the others; by the
#: identity of the steps, the version, and whether discarded samples count.
_Compared = dict[tuple[int, int, bool], tuple[np.ndarray, np.ndarray, np.ndarray]]


class StepMetricCache:
    """Cache of step metrics across the snapshots of one run; thread-safe.

    Attributes
    ----------
    failures : dict of str to str
        Metrics that raised an error, with its text: they have no value, and the others do.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self._lock = threading.Lock()
        self._cached: dict[str, _CachedMetric] = {}
        #: Number of steps, and the metrics that had a value then.
        self._with_values: tuple[int, frozenset[str]] = (-1, frozenset())

    def get(self, snapshot: Snapshot, names: Sequence[str], grouped: bool) -> dict[str, np.ndarray]:
        """Return step metrics by name, shape (S,); all NaN if a column that the metric needs is missing."""
        results: dict[str, np.ndarray] = {}
        # Metrics with the same stale steps are computed together.
        pending: dict[bytes, tuple[np.ndarray, list[str]]] = {}
        compared: _Compared = {}
        for name in names:
            results[name], stale = self._reuse(snapshot, name, compared)
            if stale.any():
                pending.setdefault(stale.tobytes(), (stale, []))[1].append(name)
        for stale, stale_names in pending.values():
            computed = self._compute(snapshot, stale_names, snapshot.steps.values[stale], grouped)
            for name in stale_names:
                results[name][stale] = computed[name]
        self._store(snapshot, results)
        return results

    def at(self, snapshot: Snapshot, name: str, positions: Sequence[int], grouped: bool) -> np.ndarray:
        """Return a step metric at some positions of the steps; unlike `get`, no other step is computed."""
        values, stale = self._reuse(snapshot, name)
        missing = np.array([position for position in sorted(set(positions)) if stale[position]], int)
        if len(missing):
            values[missing] = self._compute(snapshot, [name], snapshot.steps.values[missing], grouped)[name]
        return values[list(positions)]

    def names_with_values(self, snapshot: Snapshot, grouped: bool) -> frozenset[str]:
        """Return the step metrics that have a finite value; in a long run, only a few steps are computed."""
        names = [m.name for m in of_level("step") if available(snapshot, m, grouped)]
        if snapshot.samples <= EXACT:
            return _with_finite_values(self.get(snapshot, names, grouped))
        step_count = len(snapshot.steps.values)
        with self._lock:
            cached_count, with_values = self._with_values
        if cached_count != step_count:
            computed = self._compute(snapshot, names, _typical_steps(snapshot.steps.values), grouped)
            with_values = _with_finite_values(computed)
            with self._lock:
                self._with_values = step_count, with_values
        return with_values

    def sample_values(
        self, snapshot: Snapshot, constants: Constants, name: str, rows: np.ndarray
    ) -> np.ndarray:
        """Compute a sample metric that compares the samples of a group; NaN for rows that do not count.

        ``constants`` are those of the snapshot and inferred ones.
        """
        steps = np.unique(snapshot.metadata("step")[rows])
        column = np.full(snapshot.rows, np.nan)
        for part in batches_of_steps(snapshot, steps):
            self._fill(column, part, step_rows(snapshot, part, constants), name)
        return column[rows]

    def _compute(
        self, snapshot: Snapshot, names: Sequence[str], steps: np.ndarray, grouped: bool
    ) -> dict[str, np.ndarray]:
        """Compute step metrics of ascending ``steps``, by name."""
        results = {name: np.full(len(steps), np.nan) for name in names}
        if not names:
            return results
        usable = [name for name in names if available(snapshot, METRICS[name], grouped)]
        wide = [name for name in usable if METRICS[name].with_discarded]
        for source, chosen in ((snapshot, set(usable) - set(wide)), (snapshot.with_discarded, wide)):
            for part in batches_of_steps(source, steps) if chosen else ():
                step = source.metadata("step")[part]
                positions = np.searchsorted(steps, step[np.append(True, np.diff(step) != 0)])
                rows = step_rows(source, part)
                for name in chosen:
                    self._fill(results[name], positions, rows, name)
        return results

    def _fill(self, values: np.ndarray, at: np.ndarray, rows: StepRows, name: str) -> None:
        """Write a metric of some rows; one that raises an error has no value there."""
        try:
            values[at] = rows.value(name)
        except MemoryError:
            raise
        except Exception as error:
            self.failures[name] = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_REASON]

    def _reuse(
        self, snapshot: Snapshot, name: str, compared: _Compared | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a metric's cached values, NaN at stale steps, and the mask of stale steps.

        ``compared`` keeps what was found out about the steps, for the next metric.
        """
        with self._lock:
            cached = self._cached.get(name)
        steps = snapshot.steps
        values = np.full(len(steps.values), np.nan)
        stale = np.ones(len(steps.values), bool)
        usable = cached is not None and cached.version <= snapshot.version
        if cached is not None and usable and cached.constants == snapshot.constants and len(cached.steps):
            wide, compared = METRICS[name].with_discarded, compared if compared is not None else {}
            key = id(cached.steps), cached.version, wide
            if key not in compared:
                positions, stale = steps.compare_steps(cached.steps, cached.version)
                if wide:
                    others = snapshot.discarded_steps
                    stale |= np.isin(steps.values, others.values[others.changed_since(cached.version)])
                compared[key] = cached.steps, positions[~stale], stale
            _, positions, stale = compared[key]
            values[~stale] = cached.values[positions]
        return values, stale

    def _store(self, snapshot: Snapshot, results: dict[str, np.ndarray]) -> None:
        """Cache the results, unless those of a newer version are cached."""
        version, constants, steps = snapshot.version, snapshot.constants, snapshot.steps.values
        with self._lock:
            for name, values in results.items():
                cached = self._cached.get(name)
                if cached is None or cached.version <= version:
                    self._cached[name] = _CachedMetric(version, constants, steps, values)


def _with_finite_values(metrics: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Return the names of the metrics that have a finite value."""
    return frozenset(name for name, values in metrics.items() if np.isfinite(values).any())


def lazy_columns(snapshot: Snapshot, constants: Constants, grouped: bool) -> tuple[str, ...]:
    """Return the sample metrics that compare the samples of a group, if the run has the columns they need."""
    metrics = [m for m in of_level("sample") if m.lazy]
    return tuple(m.name for m in metrics if available(snapshot, m, grouped, constants))


def batches_of_steps(snapshot: Snapshot, steps: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows that count of ascending ``steps`` in batches of whole steps, sorted by step."""
    step = snapshot.metadata("step")
    rows = snapshot.alive_rows
    if len(steps) <= _FEW_STEPS:  # other parts of a page ask for the same steps
        rows = np.sort(np.concatenate([*map(snapshot.rows_of, steps.tolist()), rows[:0]]))
    elif len(steps) < len(snapshot.steps.values):
        rows = snapshot.rows_of_steps(steps)
    for batch in step_batches(step, rows, steps, ROWS):
        if len(batch.rows):
            yield batch.rows[np.argsort(step[batch.rows], kind="stable")].astype(np.intp)


def step_rows(snapshot: Snapshot, rows: np.ndarray, constants: Constants | None = None) -> StepRows:
    """Return the inputs of metrics for rows sorted by step; by default with the snapshot's constants."""
    step = snapshot.metadata("step")[rows]
    return StepRows(step, lambda name: _column(snapshot, name, rows), constants or snapshot.constants)


def _column(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """Return an input of metrics at ``rows``, by the name that metrics use for it.

    Raises
    ------
    KeyError
        If the run does not have the column.
    """
    if name == "rank":
        return snapshot.metadata("rank")[rows]
    if name == "response_key":
        return snapshot.metadata("response_hash")[rows]
    if name == "group_key":
        keys = group_keys(snapshot, rows)
        return keys if snapshot.further is None else np.where(snapshot.further[rows], NO_GROUP, keys)
    if name == "is_discarded":
        return snapshot.discarded[rows].astype(float)
    if name.startswith(_STATUS) and not snapshot.is_stored(name):
        return _has_status(snapshot, name.removeprefix(_STATUS), rows)
    if name == "length":
        name = "response_tokens" if snapshot.has_number("response_tokens") else "response_chars"
    return snapshot.counted(name, rows)


def _has_status(snapshot: Snapshot, status: str, rows: np.ndarray) -> np.ndarray:
    """Return 1 for rows with a status, 0 for those with another one, NaN for those without."""
    codes, names = snapshot.label_codes("status")
    code = names.index(status) if status in names else -2
    return np.where(codes[rows] >= 0, codes[rows] == code, np.nan)


def group_keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return a key of each row's group.

    The key is the logged id, else a hash of the prompt, and -1 if a row has neither. All rows of an episode
    have the same one; as an input of metrics, only those whose outcome counts have it.
    Keys are comparable within a step only. An id equals a hash with a probability of 2⁻⁶³.
    """
    hashes = snapshot.prompts(rows)
    keys = np.where(hashes == NO_TEXT, NO_GROUP, (hashes >> np.uint64(1)).astype(np.int64))
    codes = snapshot.group_codes
    return keys if codes is None else np.where(codes[rows] >= 0, codes[rows], keys)


def available(snapshot: Snapshot, m: Metric, grouped: bool, constants: Constants | None = None) -> bool:
    """Return True if the run has all inputs of a metric.

    ``grouped`` is the result of `grouped`; ``constants`` are by default those of the snapshot.
    """
    known = constants or snapshot.constants
    if m.lazy and not grouped and not m.single:
        return False
    return all(_has(snapshot, need) for need in m.needs) and all(c in known for c in m.constants)


def _has(snapshot: Snapshot, need: str) -> bool:
    """Return True if the run has an input of metrics."""
    if need == "rank":
        return snapshot.ranks > 1
    if need == "is_discarded":
        return bool(len(snapshot.discarded_steps.values))
    if need.startswith(_STATUS):
        return "status" in snapshot.labels
    if need in {"response_key", "length"}:
        return snapshot.has_number("response_chars") or (
            need == "length" and snapshot.has_number("response_tokens")
        )
    return snapshot.has_number(need)


def grouped(snapshot: Snapshot) -> bool:
    """Return True if samples come in groups, by logged id or because most samples share a prompt."""
    if snapshot.group_codes is not None:
        return True
    if not snapshot.has_number("prompt_chars"):
        return False
    batches = batches_of_steps(snapshot, _typical_steps(snapshot.steps.values))
    rows = np.concatenate([*batches, np.empty(0, int)])
    groups = step_rows(snapshot, rows).groups
    size = len(snapshot.with_outcome(rows))
    return bool(size) and groups.sizes[groups.has_several].sum() >= GROUPED * size


def _typical_steps(steps: np.ndarray) -> np.ndarray:
    """Return a few steps that represent all: the first, the middle one and the last two."""
    return np.unique(steps[[0, len(steps) // 2, -2 if len(steps) > 1 else -1, -1]]) if len(steps) else steps
