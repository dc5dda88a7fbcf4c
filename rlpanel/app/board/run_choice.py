"""Order of the list of runs, and the run that a page opens without a link to one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlpanel.panels.sidebar.run_state import LIVE_SECONDS
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_summary import RunSummaries, RunSummary


def newest_first(runs: Iterable[RunInfo], listed: Sequence[str], now: float) -> list[RunInfo]:
    """Sort runs by their newest line; live runs come first and do not change places among themselves.

    Parameters
    ----------
    runs : iterable of RunInfo
    listed : sequence of str
        Names of the runs as they are listed so far; live runs keep this order, below new ones.
    now : float
        Time in seconds since the epoch.
    """
    place = {name: position for position, name in enumerate(listed)}

    def key(run: RunInfo) -> tuple[int, int, float, str]:
        live = _is_live(run, now)
        return (0 if live else 1, place.get(run.name, -1) if live else 0, -run.modified, run.name)

    return sorted(runs, key=key)


def most_useful(runs: Sequence[RunInfo], summaries: RunSummaries, now: float) -> RunInfo | None:
    """Return the newest live run with rewards, else the newest run with rewards, else the newest run.

    Runs of training come before those whose folder is an evaluation's.

    No run is read: the summary of a run that was read before decides, else the first lines of its files.
    """
    runs = [run for run in runs if not run.split] or runs
    rewarded = [run for run in runs if _has_rewards(run, summaries.of(run.path))]
    live = [run for run in rewarded if _is_live(run, now)]
    return max(live or rewarded or runs, key=lambda run: run.modified, default=None)


def _is_live(run: RunInfo, now: float) -> bool:
    return now - run.modified <= LIVE_SECONDS


def _has_rewards(run: RunInfo, summary: RunSummary) -> bool:
    return summary.reward is not None or len(summary.trend) > 0 if summary.samples else run.rewarded
