"""Checks the live runs by the rules, so that the run list marks runs that nobody opened."""

from __future__ import annotations

from collections.abc import Sequence

from rlpanel.app.live_runs import LiveRun
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.findings_cache import cached_findings
from rlpanel.settings import FindingSettings


class LiveChecks:
    """Listener of `LiveRuns`: computes the findings of each live run, which notes the run's mark."""

    def __init__(self) -> None:
        self._thresholds = FindingSettings.from_environment()

    def check(self, runs: Sequence[LiveRun], now: float) -> None:
        """Check all runs whose backlog is read."""
        for run in runs:
            self.findings_of(run, now)

    def findings_of(self, run: LiveRun, now: float) -> list[Finding]:
        """Return the findings of a run; none while its backlog is read, because a part would mislead."""
        snapshot = run.index.snapshot
        if not snapshot.version or not snapshot.progress.caught_up:
            return []
        return cached_findings(run.index, self._thresholds, now)
