"""Facts of runs for lists: samples, last reward and its trend, also of runs that are closed now.

The facts of a run are noted with every snapshot that it publishes; no run is read for them. They are saved
beside the run's columns, if those are saved, for the next start. They may be older than the run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.cache.saved_text import read_saved_text, save_text
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.columns.step_stats import MEAN
from rlpanel.store.snapshot.complete_steps import newest_complete_step
from rlpanel.store.snapshot.snapshot import Snapshot

#: File in the cache folder of a run.
FILE = "facts"
#: Maximum number of points of a trend, and of runs whose saved facts are read between two updates of a list.
TREND_POINTS, _BATCH = 24, 50


@dataclass(frozen=True)
class RunFacts:
    """What a list says about a run that was read.

    Attributes
    ----------
    samples : int
        Number of samples in all splits.
    step : int
        The newest complete step.
    reward : float or None
        Mean reward of that step; None if it was not logged.
    trend : tuple of float
        Mean rewards from the first step to that step, at most `TREND_POINTS`: each is the mean of as many
        consecutive steps. Empty unless there are at least two.
    complete : bool
        False if the reader still had lines to read.
    bytes : int
        Bytes of the files, as they are on the disk.
    newest_line : float
        Time of the newest line, in seconds since the epoch.
    split : str
        The split that step, reward and trend are about.
    doubt : str
        Kind of the remark on this step, whose reward may be that of other samples; empty if there is none.
    """

    samples: int
    step: int
    reward: float | None
    trend: tuple[float, ...]
    complete: bool
    bytes: int
    newest_line: float
    split: str = TRAIN
    doubt: str = ""


_facts: dict[str, RunFacts | None] = {}  # by the run's folder; None: nothing is saved


def facts_of(snapshot: Snapshot, now: float) -> RunFacts | None:
    """Return the facts of a snapshot; None while it has no samples. Only statistics of steps are used."""
    step = newest_complete_step(snapshot, now)
    if step is None:
        return None
    means = np.empty(0)
    if snapshot.has_number("reward"):
        means = snapshot.steps.stat("reward", MEAN)[: snapshot.steps.position(step) + 1]
    last = float(means[-1]) if len(means) else math.nan
    progress = snapshot.progress
    return RunFacts(
        samples=snapshot.all_samples,
        step=step,
        reward=_rounded(last) if math.isfinite(last) else None,
        trend=_trend(means[np.isfinite(means)]),
        complete=progress.caught_up and not progress.halted,
        bytes=progress.bytes_total,
        newest_line=snapshot.newest_line,
        split=snapshot.split,
        doubt=_doubt(snapshot, step) if progress.caught_up else "",
    )


def _doubt(snapshot: Snapshot, step: int) -> str:
    """Return the kind of the remark that puts the step's reward in doubt; wrong groups do not."""
    kinds = (remark.kind for remark in snapshot.remarks if step in remark.steps)
    return next((kind for kind in kinds if kind != "groups"), "")


def note_facts(run: AnyPath, snapshot: Snapshot) -> None:
    """Note the facts of a run's new snapshot; without samples, what was known is forgotten."""
    _facts[str(run)] = facts_of(snapshot, time.time())


def save_facts(run: AnyPath) -> None:
    """Save the noted facts of a run beside its columns; nothing happens if no columns are saved."""
    facts = known_facts(run)
    if facts is not None:
        save_text(run, FILE, json.dumps(asdict(facts)))


def known_facts(run: AnyPath) -> RunFacts | None:
    """Return the facts of a run; None if it was never read, or its saved facts were not read yet."""
    return _facts.get(str(run))


def read_saved_facts(runs: Sequence[AnyPath]) -> Iterator[int]:
    """Read the saved facts of runs without facts, and yield their number after every `_BATCH` runs."""
    unknown = [run for run in runs if str(run) not in _facts]
    for count, run in enumerate(unknown, start=1):
        facts = _parse(read_saved_text(run, FILE))
        _facts.setdefault(str(run), facts)
        if count % _BATCH == 0 or count == len(unknown):
            yield count


def _trend(means: np.ndarray) -> tuple[float, ...]:
    if len(means) < 2:
        return ()
    parts = np.array_split(means, min(len(means), TREND_POINTS))
    return tuple(_rounded(float(part.mean())) for part in parts)


def _rounded(value: float) -> float:
    """Round to six significant digits, because the facts are sent and saved as text."""
    return float(f"{value:.6g}")


def _parse(text: str) -> RunFacts | None:
    """Return the facts that a saved text holds; None if it holds none."""
    try:
        found = json.loads(text)
        reward = None if found["reward"] is None else float(found["reward"])
        trend = tuple(float(value) for value in found["trend"][:TREND_POINTS])
        facts = RunFacts(
            int(found["samples"]),
            int(found["step"]),
            reward,
            trend,
            found["complete"] is True,
            int(found["bytes"]),
            float(found["newest_line"]),
            str(found["split"]),
            str(found["doubt"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    numbers = (*trend, facts.newest_line, *(() if reward is None else (reward,)))
    return facts if all(map(math.isfinite, numbers)) and facts.samples > 0 else None
