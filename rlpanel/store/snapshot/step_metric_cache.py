"""Step metrics of a snapshot, computed on demand and only for the steps that changed since the last time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.metrics.engine.column_info import METRICS, Metric, of_level
from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.engine.step_compute import NO_GROUP, StepRows
from rlpanel.sources.readers.tail import line_hash
from rlpanel.store.snapshot.snapshot import Snapshot

#: Rows that are looked at together: their columns should stay in the processor's cache.
ROWS = 32_768
#: Up to this many samples all steps are looked at to see which metrics have a value.
EXACT = 131_072
#: Share of a step's rows that must share their prompt before prompts count as groups: a prompt that is drawn
#: twice by chance is none.
GROUPED = 0.5


#: What the hash of a text is that nobody logged.
_NO_TEXT = np.uint64(line_hash(b""))


@dataclass(frozen=True)
class _Known:
    """A metric's values as of a version, by step."""

    version: int
    constants: Constants
    steps: np.ndarray
    found: np.ndarray


class StepMetricCache:
    """Cache of step metrics between snapshots of one run. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._offered: tuple[int, frozenset[str]] = (-1, frozenset())

    def of(self, snapshot: Snapshot, names: Sequence[str], grouped: bool) -> dict[str, np.ndarray]:
        """Step metrics by name, shape (S,); all NaN where a column is missing."""
        found, missing = {}, {}
        for name in names:
            values, stale = self._start(snapshot, name)
            found[name] = values
            if stale.any():
                missing.setdefault(stale.tobytes(), (stale, []))[1].append(name)
        for stale, wanted in missing.values():
            made = _compute(snapshot, wanted, snapshot.steps.values[stale], grouped)
            for name in wanted:
                found[name][stale] = made[name]
        self._keep(snapshot, found)
        return found

    def offered(self, snapshot: Snapshot, grouped: bool) -> frozenset[str]:
        """The step metrics that the run has a value of; of a run of many rows, a few steps tell."""
        names = [m.name for m in of_level("step") if available(snapshot, m, grouped)]
        if snapshot.samples <= EXACT:
            return _with_value(self.of(snapshot, names, grouped))
        count = len(snapshot.steps.values)
        with self._lock:
            known, offered = self._offered
        if known != count:
            offered = _with_value(_compute(snapshot, names, _few(snapshot.steps.values), grouped))
            with self._lock:
                self._offered = count, offered
        return offered

    def _start(self, snapshot: Snapshot, name: str) -> tuple[np.ndarray, np.ndarray]:
        """What is known of a metric already, and which steps are not."""
        with self._lock:
            known = self._known.get(name)
        steps = snapshot.steps
        found = np.full(len(steps.values), np.nan)
        stale = np.ones(len(steps.values), bool)
        usable = known is not None and known.version <= snapshot.version
        if known is not None and usable and known.constants == snapshot.constants and len(known.steps):
            at, stale = steps.compare_steps(known.steps, known.version)
            found[~stale] = known.found[at[~stale]]
        return found, stale

    def _keep(self, snapshot: Snapshot, found: dict[str, np.ndarray]) -> None:
        with self._lock:
            for name, values in found.items():
                known = self._known.get(name)
                if known is None or known.version <= snapshot.version:
                    version, steps = snapshot.version, snapshot.steps.values
                    self._known[name] = _Known(version, snapshot.constants, steps, values)


def _with_value(found: Mapping[str, np.ndarray]) -> frozenset[str]:
    return frozenset(name for name, values in found.items() if np.isfinite(values).any())


def sample_values(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """A sample metric that compares samples of a group, at ``rows``; NaN for dead rows."""
    steps = np.unique(snapshot.place("step")[rows])
    column = np.full(snapshot.rows, np.nan)
    for part in _parts(snapshot, steps):
        column[part] = step_rows(snapshot, part).value(name)
    return column[rows]


def lazy_columns(snapshot: Snapshot, grouped: bool) -> tuple[str, ...]:
    """The sample metrics that compare samples of a group and that the run's columns allow."""
    return tuple(m.name for m in of_level("sample") if m.lazy and available(snapshot, m, grouped))


def _compute(
    snapshot: Snapshot, names: Sequence[str], steps: np.ndarray, grouped: bool
) -> dict[str, np.ndarray]:
    """Step metrics of ascending ``steps``."""
    found = {name: np.full(len(steps), np.nan) for name in names}
    if not names:
        return found
    usable = [name for name in names if available(snapshot, METRICS[name], grouped)]
    for part in _parts(snapshot, steps):
        step = snapshot.place("step")[part]
        where = np.searchsorted(steps, step[np.append(True, np.diff(step) != 0)])
        rows = step_rows(snapshot, part)
        for name in usable:
            found[name][where] = rows.value(name)
    return found


def _parts(snapshot: Snapshot, steps: np.ndarray) -> Iterator[np.ndarray]:
    """The living rows of ascending ``steps``, whole steps together, step by step."""
    step = snapshot.place("step")
    if len(steps) < len(snapshot.steps.values):
        rows = np.flatnonzero(np.isin(step, steps) & snapshot.alive)
    else:
        rows = snapshot.living
    rows = rows[np.argsort(step[rows], kind="stable")]
    ends = np.searchsorted(step[rows], steps, side="right")
    start = 0
    for at, end in enumerate(ends.tolist()):
        following = ends[at + 1] if at + 1 < len(ends) else None
        if following is None or following - start > ROWS:
            if end > start:
                yield rows[start:end]
            start = end


def step_rows(snapshot: Snapshot, rows: np.ndarray) -> StepRows:
    """Rows of some steps, step by step, as metrics look at them."""
    step = snapshot.place("step")[rows]
    return StepRows(step, lambda name: _column(snapshot, name, rows), snapshot.constants)


def _column(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    """What metrics call a column, at ``rows``.

    Raises
    ------
    KeyError
        If the run has none of this name.
    """
    if name == "rank":
        return snapshot.place("rank")[rows]
    if name == "response_key":
        return snapshot.place("response_hash")[rows]
    if name == "group_key":
        return group_keys(snapshot, rows)
    if name == "length":
        name = "response_tokens" if snapshot.has_number("response_tokens") else "response_chars"
    return snapshot.number(name)[rows]


def group_keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """What group of its step each row belongs to: its id where logged, else its prompt; -1 for none.

    Ids and hashes do not meet but by a chance of 2⁻⁶³; keys compare within a step only.
    """
    hashes = snapshot.place("prompt_hash")[rows]
    keys = np.where(hashes == _NO_TEXT, NO_GROUP, (hashes >> np.uint64(1)).astype(np.int64))
    codes = snapshot.group_codes
    return keys if codes is None else np.where(codes[rows] >= 0, codes[rows], keys)


def available(snapshot: Snapshot, m: Metric, grouped: bool) -> bool:
    """Return True if the run has what a metric needs; ``grouped`` is what `grouped` says of it."""
    if m.lazy and not grouped:
        return False
    return all(_has(snapshot, need) for need in m.needs) and all(c in snapshot.constants for c in m.constants)


def _has(snapshot: Snapshot, need: str) -> bool:
    if need == "rank":
        return snapshot.ranks > 1
    if need in {"response_key", "length"}:
        return snapshot.has_number("response_chars") or (
            need == "length" and snapshot.has_number("response_tokens")
        )
    return snapshot.has_number(need)


def grouped(snapshot: Snapshot) -> bool:
    """Whether samples come in groups: with an id, or with prompts that most of a step's samples share."""
    if snapshot.group_codes is not None:
        return True
    if not snapshot.has_number("prompt_chars"):
        return False
    rows = np.concatenate([*_parts(snapshot, _few(snapshot.steps.values)), np.empty(0, int)])
    groups = step_rows(snapshot, rows).groups
    return bool(len(rows)) and groups.sizes[groups.has_several].sum() >= GROUPED * len(rows)


def _few(steps: np.ndarray) -> np.ndarray:
    """Steps that stand for all: the first, one in the middle, the last two."""
    return np.unique(steps[[0, len(steps) // 2, -2 if len(steps) > 1 else -1, -1]]) if len(steps) else steps
