"""Marks of runs for lists: the worst finding of each run that was checked, also of runs that are closed now.

A mark is noted whenever the findings of a run are computed (`rlpanel.findings.findings_cache`); no run is
read for it. If the run's columns are saved, so is its mark, for the next start. It may be older than the run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.cache.saved_text import read_saved_text, save_text
from rlpanel.store.index.run_index import RunIndex

#: File in the cache folder of a run.
FILE = "findings"
#: Minimum number of seconds between two saves of a mark with the same severity.
SAVE_EVERY = 60.0
#: Maximum length of a saved sentence, and number of marks that are read between two updates of a list.
_LONGEST, _BATCH = 1000, 50


@dataclass(frozen=True)
class RunMark:
    """The worst finding of a run that goes on or ended just now.

    Attributes
    ----------
    severity : str
        ``alarm`` or ``warning``; empty if there is no such finding.
    sentence : str
        The finding's sentence; empty without a finding.
    step : int
        The newest step when the run was checked.
    """

    severity: str = ""
    sentence: str = ""
    step: int = -1


_marks: dict[str, RunMark | None] = {}  # by the run's folder; None: nothing is saved
_saved: dict[str, tuple[RunMark, float]] = {}  # the saved mark and the time of saving
_lock = threading.Lock()


def mark_of(findings: Sequence[Finding], step: int) -> RunMark:
    """Return the mark of a run with these findings."""
    current = [finding for finding in findings if finding.severity != "info"]
    if not current:
        return RunMark(step=step)
    worst = min(current, key=lambda finding: SEVERITIES.index(finding.severity))
    return RunMark(worst.severity, worst.sentence[:_LONGEST], step)


def note_findings(index: RunIndex, findings: Sequence[Finding], now: float) -> None:
    """Note the mark of a run, and save it if its columns are saved; not while a backlog is read."""
    snapshot = index.snapshot
    if not snapshot.progress.caught_up or not len(snapshot.steps.values):
        return
    mark, key = mark_of(findings, int(snapshot.steps.values[-1])), str(index.path)
    with _lock:
        _marks[key] = mark
        saved, saved_at = _saved.get(key, (None, 0.0))
        other = saved is None or saved.severity != mark.severity
        due = other or (saved != mark and now - saved_at >= SAVE_EVERY)
        if due:
            _saved[key] = mark, now
    if due and index.reading.cache:
        save_text(index.path, FILE, json.dumps(asdict(mark)))


def known_mark(run: AnyPath) -> RunMark | None:
    """Return the mark of a run; None if it was never checked, or its saved mark was not read yet."""
    return _marks.get(str(run))


def read_saved_marks(runs: Sequence[AnyPath]) -> Iterator[int]:
    """Read the saved marks of runs without a mark, and yield their number after every `_BATCH` runs."""
    unknown = [run for run in runs if str(run) not in _marks]
    for count, run in enumerate(unknown, start=1):
        mark = _parse(read_saved_text(run, FILE))
        with _lock:
            _marks.setdefault(str(run), mark)
        if count % _BATCH == 0 or count == len(unknown):
            yield count


def _parse(text: str) -> RunMark | None:
    """Return the mark that a saved text holds; None if it holds none."""
    try:
        found = json.loads(text)
        severity, sentence, step = found["severity"], found["sentence"], found["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if severity not in ("alarm", "warning", "") or not isinstance(sentence, str):
        return None
    return RunMark(severity, sentence[:_LONGEST], step) if isinstance(step, int) else None
