"""What the rules found in runs, worked out once for all who ask."""

from __future__ import annotations

import threading
import weakref

from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex

_known: weakref.WeakKeyDictionary[RunIndex, dict[str, CheckResult]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def cached_findings(
    index: RunIndex, thresholds: FindingSettings, now: float, split: str = ""
) -> list[Finding]:
    """What the rules find in a run now; what rests on its rows is looked for only where those changed.

    Parameters
    ----------
    index : RunIndex
    thresholds : FindingSettings
        The process's.
    now : float
        Seconds since the epoch.
    split : str
        Whose samples are looked at; the run's own choice by default.
    """
    view = index.view.in_split(split)
    name = view.snapshot.split
    with _lock:
        known = _known.setdefault(index, {}).get(name)
    checked = check(view, thresholds, now, known)
    with _lock:
        _known[index][name] = checked
    return checked.found
