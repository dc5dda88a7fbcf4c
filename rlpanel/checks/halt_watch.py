"""Follows one run while it is written, and asks its training to stop: here, or in a process beside it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel.checks.check_process import limit_memory
from rlpanel.errors import SettingError
from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.raised import PATIENCE, RaisedFinding, RaisedFindings
from rlpanel.findings.engine.rule import RULES
from rlpanel.halt_file import Halt, HaltOn, write_halt
from rlpanel.queries.run_columns import similar
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.backlog.workers import yield_processor
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import IDLE_SECONDS

# -- halt watch ----------------------------------------------------------------------------------------
# Follows one run while it is written, and asks its training to stop once a finding is confirmed.
#
# A finding that one step shows and the next does not would be withdrawn by patience, see
# `rlpanel.findings.engine.raised`: it never stops a training. Neither does a rule that failed, or one about
# the clock, such as *No new lines*.


#: Seconds after the newest line at which the newest step counts as complete. Later times would confirm
#: findings of a training that pauses, which patience must decide.
_RESTED = IDLE_SECONDS + 0.5


def require_rules(asked: HaltOn) -> None:
    """Raise `SettingError` if there is no rule of a name."""
    for name in asked.rules:
        if name not in RULES:
            raise SettingError(f"there is no rule {name[:80]!r}{similar(name, RULES)}")


@dataclass
class HaltWatch:
    """Checks a run each time that a step is complete.

    Parameters
    ----------
    run : Path
        The run's folder.
    asked : HaltOn
        The findings that stop the training.
    """

    run: Path
    asked: HaltOn

    def __post_init__(self) -> None:
        require_rules(self.asked)
        self._index = RunIndex(self.run, self.run.name, Reading(jobs=0, cache=False))
        self._last: CheckResult | None = None
        self._thresholds = FindingSettings.from_environment()

    def look(self) -> Halt | None:
        """Read what was written since the last look, and return why the training should stop, or None."""
        index = self._index
        index.rescan()
        while index.read():
            pass
        if not index.snapshot.version or not index.snapshot.progress.caught_up:
            return None
        now = min(time.time(), index.snapshot.newest_line + _RESTED)
        view = index.view.in_split("")
        self._last = check(view, self._thresholds, now, self._last, index, RaisedFindings())
        steps = view.snapshot.steps.values[: self._last.data_version[1]]
        return reason_to_halt(self._last, steps, self.asked)

    def close(self) -> None:
        """Close the run's files."""
        self._index.close()


def reason_to_halt(result: CheckResult, steps: np.ndarray, asked: HaltOn) -> Halt | None:
    """Return the worst finding that is confirmed and asked for; None without one.

    Parameters
    ----------
    result : CheckResult
        Of a run whose findings are followed.
    steps : ndarray of int, shape (S,)
        Its complete steps.
    asked : HaltOn

    Notes
    -----
    The finding must be found now, and since its first step `PATIENCE` further steps must be complete. For an
    alarm, both hold for its being an alarm. Time confirms nothing: a training that evaluates pauses as well.
    """
    if result.raised is None or not len(steps):
        return None
    raised = result.raised.by_key
    for finding in result.findings:
        for each in _family(finding):
            entry = raised.get(each.key)
            if asked.rules and each.rule not in asked.rules:
                continue
            if entry is not None and _is_confirmed(entry, steps, asked.severity):
                return Halt(
                    sentence=finding.sentence if finding.key in raised else entry.finding.sentence,
                    severity=entry.finding.severity,
                    rule=each.rule,
                    onset=None if each.onset is None else int(each.onset),
                    step=int(steps[-1]),
                    time=time.time(),
                )
    return None


def _family(finding: Finding) -> Iterator[Finding]:
    """Yield a finding and its symptoms."""
    yield finding
    for symptom in finding.symptoms:
        yield from _family(symptom)


def _is_confirmed(entry: RaisedFinding, steps: np.ndarray, severity: str) -> bool:
    """Return whether a finding was found since several steps, and is found now."""
    since = entry.alarm if severity == "alarm" else entry.first
    if since is None or entry.ended is not None or entry.last != int(steps[-1]):
        return False
    return len(steps) - int(np.searchsorted(steps, since, "right")) >= PATIENCE


# -- halt process --------------------------------------------------------------------------------------
# The process beside a training that checks its run and writes the file ``HALT``, see `HaltWatch`.
#
# It is a fresh interpreter of low priority with a limit of memory, and it ends with its parent. It uses at
# most a share of one processor: after a check it rests for a multiple of the check's time.


#: Seconds between two looks, and the rest after a look in multiples of its duration.
INTERVAL, REST = 0.5, 4.0


def follow(watch: HaltWatch, interval: float = INTERVAL) -> str:
    """Look until the training should stop; write the file, and return the reason."""
    while True:
        began = time.monotonic()
        halt = watch.look()
        if halt is not None:
            write_halt(watch.run, halt)
            return halt.reason
        time.sleep(max(interval, REST * (time.monotonic() - began)))


def serve() -> None:
    """Follow the run that the first argument after the path of modules describes, as JSON."""
    request = json.loads(sys.argv[2])
    yield_processor()
    limit_memory(request["memory"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asked = HaltOn(request["severity"], tuple(request["rules"]))
    follow(HaltWatch(Path(request["run"]), asked), request["interval"])


def _end_with_parent() -> None:
    """Exit when the parent has closed this process's input, or has ended."""
    while sys.stdin.read(4096):
        pass
    os._exit(0)
