"""Chooses the run that a page opens without a link, and opens the runs that are laid over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rlpanel.board_url import MAX_OVERLAY_RUNS
from rlpanel.errors import RLPanelError
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import SPLIT, OverlayRun, split_label
from rlpanel.panels.sidebar.run_badge import LIVE_SECONDS
from rlpanel.panels.sidebar.run_list import short_names
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.run_summary import RunSummary
from rlpanel.store.index.summary_store import SummaryStore


class OpenedRuns:
    """Keeps open the runs that the selection overlays or compares, and closes those no longer selected.

    Parameters
    ----------
    context : Context
    reader : Reader
        Follows the runs.
    path_of : callable
        Returns the folder of a run by its name, or None while there is no root. Raises RLPanelError for an
        unknown run.
    say : callable
        Shows an error message.
    """

    def __init__(
        self,
        context: Context,
        reader: Reader,
        path_of: Callable[[str], AnyPath | None],
        say: Callable[[str], None],
    ) -> None:
        self._context, self._reader, self._path_of, self._say = context, reader, path_of, say
        self._open: dict[str, RunIndex] = {}
        self._slots: dict[str, int] = {}
        self._missing: set[str] = set()  # runs reported as missing; they are tried again without a message
        context.selection.param.watch(
            self._choose, ["run", "split", "overlay_runs", "overlay_splits", "compared_run"]
        )
        context.param.watch(self._choose, "runs")

    def contains(self, index: RunIndex) -> bool:
        """Return True if a run is overlaid or compared; thread-safe."""
        return index in list(self._open.values())

    def on_change(self, changed: Iterable[RunIndex | None]) -> None:
        """Update the views if one of the changed runs is overlaid."""
        overlaid = set(self._open.values())
        if self._context.selection.overlay_splits:
            overlaid |= {index for index in (self._context.index,) if index is not None}
        if not overlaid.isdisjoint(changed):
            self.show()

    def close(self) -> None:
        """Close all overlaid runs."""
        for index in self._open.values():
            self._reader.close(index)
        self._open = {}

    def _choose(self, *_: Any) -> None:
        selection = self._context.selection
        over = [name for name in selection.overlay_runs if name != selection.run][:MAX_OVERLAY_RUNS]
        selected = dict.fromkeys([*over, *([selection.compared_run] if selection.compared_run else [])])
        for name in set(self._open) - set(selected):
            self._reader.close(self._open.pop(name))
        problems = {name: self._open_run(name) for name in selected if name not in self._open}
        missing = {name for name, problem in problems.items() if problem}
        messages = [problems[name] for name in problems if name in missing - self._missing]
        self._missing = missing
        keys = [*(SPLIT + name for name in selection.overlay_splits), *over][:MAX_OVERLAY_RUNS]
        self._slots = {name: slot for name, slot in self._slots.items() if name in keys}
        for name in keys:
            free = (slot for slot in range(MAX_OVERLAY_RUNS) if slot not in self._slots.values())
            self._slots.setdefault(name, next(free, 0))
        self.show()
        if messages:
            self._say("; ".join(messages))

    def _open_run(self, name: str) -> str:
        """Open a run and return an error message, or an empty string if it was opened."""
        try:
            path = self._path_of(name)
        except RLPanelError as error:
            return str(error)
        if path is not None:
            self._open[name] = self._reader.open(path, name)
        return ""

    def show(self) -> None:
        """Pass the current snapshots of the overlaid runs and splits to the views."""
        context = self._context
        overlays = {name: self._overlay(name, index) for name, index in self._open.items()}
        overlays |= self._split_overlays()
        context.param.update(
            overlays=[overlays[name] for name in self._slots if name in overlays],
            other_run=overlays.get(context.selection.compared_run),
        )

    def _overlay(self, name: str, index: RunIndex) -> OverlayRun:
        """Return another run as an overlay, in the current split if it has that split."""
        view = self._context.counted(index.view.in_split(self._context.snapshot.split))
        shown = {self._context.selection.run, *self._slots, name}
        labels = {info.name: info.label for info in self._context.runs if info.name in shown}
        label = short_names(labels).get(name, name)  # the others' paths say the rest
        return OverlayRun(name, split_label(label, view.snapshot), self._slots.get(name, 0), index, view)

    def _split_overlays(self) -> dict[str, OverlayRun]:
        """Return the overlaid splits of the current run."""
        context, index, overlays = self._context, self._context.index, {}
        for key in self._slots:
            split = key.removeprefix(SPLIT)
            if index is None or split == key or split == context.snapshot.split:
                continue
            if split in index.snapshot.splits:
                view = context.counted(index.view.in_split(split))
                overlays[key] = OverlayRun(key, split, self._slots[key], index, view)
        return overlays


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


def most_useful(runs: Sequence[RunInfo], summaries: SummaryStore, now: float) -> RunInfo | None:
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
