"""Rows of the table of runs: what is known of each run, for the browser, the order and the filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlpanel.number_text import number
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr, trn
from rlpanel.panels.runs.run_settings import gpus_of, setting_text, settings_of_run
from rlpanel.panels.session.remark_labels import kind_label
from rlpanel.panels.sidebar.run_badge import FINISHED, STOPPED, planned_steps, run_state
from rlpanel.panels.sidebar.run_list import entry_of
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.folder_settings import MAX_SETTINGS, Setting
from rlpanel.store.index.run_summary import RunSummary

#: What the check of a run came to, the worst first. A run is unread if it cannot be read at all.
ALARM, UNREAD, WARNING, UNCHECKED, FINE = "alarm", "unread", "warning", "unchecked", "fine"
VERDICTS = (ALARM, UNREAD, WARNING, UNCHECKED, FINE)


@dataclass(frozen=True)
class RunRow:
    """A run in the table.

    Attributes
    ----------
    name, label, place : str
        Name of the run in the address, its path as it is shown, and its place in the tree of folders.
    state : str
        State by the age of its newest line.
    verdict : str
        One of `VERDICTS`.
    numbers : dict of str to float
        What it is sorted and filtered by; what is unknown is left out.
    settings : dict
        Its configuration by short name.
    cells : dict
        What the browser shows, as texts.
    full : bool
        It has as many settings as a summary keeps, or more.
    """

    name: str
    label: str
    place: str
    state: str
    verdict: str
    time: float
    numbers: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)
    full: bool = False

    @property
    def folder(self) -> str:
        """The folder that groups it; empty directly below the root."""
        return self.place.rpartition("/")[0]


def state_at(info: RunInfo, summary: RunSummary, now: float) -> str:
    """Return the state of a run at a time in seconds since the epoch."""
    state = run_state(now - max(info.modified, summary.newest_line))
    return STOPPED if state == FINISHED and planned_steps(summary.config, summary.step) else state


def run_row(info: RunInfo, summary: RunSummary, label: str, place: str, problem: str, state: str) -> RunRow:
    """Return the row of a run.

    Parameters
    ----------
    info : RunInfo
    summary : RunSummary
    label, place : str
        See `RunRow`.
    problem : str
        Why the run cannot be read; empty if it can.
    state : str
        See `state_at`.
    """
    if summary.samples and info.bytes < summary.bytes:
        summary = RunSummary()  # the files were replaced
    entry = entry_of(label, info, summary, problem)
    verdict = _verdict(summary, problem)
    numbers = {
        name: float(value)
        for name, value in {
            "step": summary.step,
            "reward": summary.reward,
            "error": summary.error,
            "kl": summary.kl,
            "length": summary.length,
            "onset": summary.onset,
            "best": summary.best,
            "tokens": summary.tokens,
            **_cost(summary),
            "samples": summary.samples or None,
            "alarms": summary.alarms if summary.severity is not None else None,
            "warnings": summary.warnings if summary.severity is not None else None,
        }.items()
        if value is not None
    }
    settings = settings_of_run(summary.config, label)
    cells: dict[str, Any] = {
        "name": info.name,
        "label": label,
        "place": place,
        "state": state,
        "state_text": tr(state),
        "verdict": verdict,
        "said": _said(summary, problem, verdict),
        "settings": {name: setting_text(value) for name, value in settings.items()},
        "trend": [float(f"{value:.4g}") for value in summary.trend] if "trend" in entry else [],
    }
    if summary.first is not None and summary.step is not None:
        cells["first"], cells["last"] = summary.first, summary.step
    cells |= {
        name: number(numbers[name], whole=True) for name in ("step", "length", "onset") if name in numbers
    }
    cells |= {name: number(numbers[name]) for name in ("reward", "error", "kl", "best") if name in numbers}
    cells |= {name: number(numbers[name]) for name in ("tokens", "hours", "gpu_hours") if name in numbers}
    if summary.best_step is not None and "best" in cells:
        error = "" if summary.best_error is None else f" ± {number(summary.best_error)}"
        at = tr("step")
        cells["best_tip"] = f"{cells['best']}{error} · {at} {number(summary.best_step, whole=True)}"
    if summary.onset is not None and summary.first is not None and summary.step is not None:
        cells["from"] = _share(summary.onset, summary.first, summary.step)
    if doubt := kind_label(summary.doubt):
        cells["doubt"] = doubt
    if len(summary.trend) > 1:
        cells["span"] = [number(min(summary.trend)), number(max(summary.trend))]
    others = summary.alarms + summary.warnings - 1
    if others > 0 and verdict in (ALARM, WARNING):
        cells["others"] = trn("and {count} more", "and {count} more", others)
    is_full = len(summary.config) >= MAX_SETTINGS
    return RunRow(info.name, label, place, state, verdict, entry["time"], numbers, settings, cells, is_full)


def _cost(summary: RunSummary) -> dict[str, float]:
    """Return the hours of a run, and its GPU-hours if its configuration names the number of GPUs."""
    if summary.seconds is None:
        return {}
    hours, gpus = summary.seconds / 3600, gpus_of(summary.config)
    return {"hours": hours} if gpus is None else {"hours": hours, "gpu_hours": hours * gpus}


def _verdict(summary: RunSummary, problem: str) -> str:
    if problem or summary.unreadable:
        return UNREAD
    if summary.severity is None:
        return UNCHECKED
    return {"alarm": ALARM, "warning": WARNING}.get(summary.severity, FINE)


def _said(summary: RunSummary, problem: str, verdict: str) -> str:
    """Return the sentence of a row: its worst finding, or why there is none."""
    if verdict in (ALARM, WARNING):
        return tr_finding(summary.finding)
    if verdict == UNREAD:
        return tr("cannot be read: {reason}", reason=problem or summary.unchecked)
    if verdict == UNCHECKED:
        reason = summary.unchecked
        return tr("not checked: {reason}", reason=reason) if reason else tr("not checked yet")
    return tr("no finding")


def _share(onset: int, first: int, last: int) -> int:
    """Return where the onset lies between the first and the last step, in percent."""
    return round(100 * min(1.0, max(0.0, (onset - first) / (last - first)))) if last > first else 0
