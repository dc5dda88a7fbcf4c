"""Cache of findings per run and split, shared by all sessions and the alerts."""

from __future__ import annotations

import threading
import weakref

from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.run_marks import note_findings
from rlpanel.findings.saved_findings import SavedFindings
from rlpanel.settings import FindingSettings
from rlpanel.store.columns.page_memory import trim_heap
from rlpanel.store.index.run_index import RunIndex

#: Of the process, but held by the run's index, which is of a lower room: they end with it.
_cache: weakref.WeakKeyDictionary[RunIndex, dict[str, CheckResult]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def cached_findings(
    index: RunIndex, thresholds: FindingSettings, now: float, split: str = ""
) -> list[Finding]:
    """Return the current findings of a run; rules that read its rows run again only after a change.

    The findings of a run that is not followed are read from its cache folder, if nothing has changed.

    Parameters
    ----------
    index : RunIndex
    thresholds : FindingSettings
        Must be the same for all callers in this process.
    now : float
        Seconds since the epoch.
    split : str
        The split to check; the run's default split if empty.
    """
    view = index.view.in_split(split)
    name = view.snapshot.split
    with _lock:
        previous = _cache.setdefault(index, {}).get(name)
    saved = SavedFindings(index, view, thresholds, now) if previous is None else None
    result = check(view, thresholds, now, previous or (saved.read() if saved is not None else None))
    if saved is not None:
        saved.write(result)
        trim_heap()  # the first check computes all steps and frees as much as it used
    with _lock:
        _cache[index][name] = result
    if name == index.view.in_split("").snapshot.split:
        note_findings(index, result.findings, now)
    return result.findings


def known_findings(index: RunIndex, split: str = "") -> list[Finding]:
    """Return the findings of the last check of a run's split, without a new check; empty before the first.

    Parameters
    ----------
    index : RunIndex
    split : str
        Name of the split, as the checked snapshot has it.
    """
    with _lock:
        last = _cache.get(index, {}).get(split)
    return last.findings if last is not None else []
