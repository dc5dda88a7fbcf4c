"""Cache of findings per run and split, shared by all sessions and the alerts."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import SEVERITIES, Finding
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

    The worst finding of the run's default split becomes part of its summary, see `RunSummary`.

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
    result = check(view, thresholds, now, previous)
    if previous is None:
        trim_heap()  # the first check computes all steps and frees as much as it used
    with _lock:
        _cache[index][name] = result
    if name == index.view.in_split("").snapshot.split:
        _note_worst(index, result.findings, now)
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


def worst_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the worst finding that is ongoing or ended just now; None without one."""
    current = [finding for finding in findings if finding.severity != "info"]
    return min(current, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def _note_worst(index: RunIndex, findings: Sequence[Finding], now: float) -> None:
    """Note the worst finding in the run's summary; not while a backlog is read."""
    steps, worst = index.snapshot.steps.values, worst_finding(findings)
    if index.snapshot.progress.caught_up and len(steps):
        severity, sentence = (worst.severity, worst.sentence) if worst is not None else ("", "")
        save = index.reading.cache
        index.summaries.note_finding(index.path, severity, sentence, int(steps[-1]), now, save=save)
