"""Rows of the table of runs: what is known of each run, and the settings in which runs differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlpanel.number_text import number
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr, trn
from rlpanel.panels.session.context_parts import kind_label
from rlpanel.panels.sidebar.run_badge import FINISHED, STOPPED, planned_steps, run_state
from rlpanel.panels.sidebar.run_list import entry_of
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_folder import MAX_SETTINGS, Setting
from rlpanel.store.index.run_summary import RunSummary

# -- run settings --------------------------------------------------------------------------------------
# Settings in which runs differ, such as the learning rate: from ``run.json``, else from the run's path.


#: Settings as people write them into a path, and our short name of those that trainers name otherwise.
_SHORT = {
    "learning_rate": "lr",
    "actor_lr": "lr",
    "kl_coef": "beta",
    "kl_beta": "beta",
    "cliprange": "epsilon",
    "clip": "epsilon",
    "eps": "epsilon",
    "temp": "temperature",
    "lambda": "lam",
    "bs": "batch_size",
    "batch": "batch_size",
    "num_generations": "group_size",
}
#: Names that count as a setting in a path also without a sign before the number: a model's name does not.
_IN_PATHS = frozenset(
    (
        *("lr", "beta", "seed", "kl", "epsilon", "eps", "clip", "gamma", "lam", "lambda", "temp"),
        *("temperature", "bs", "batch", "tau", "alpha", "wd", "warmup", "ent", "entropy", "dropout", "topp"),
    )
)
_SETTING = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z_]*?)([=_-]?)(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![A-Za-z0-9.])"
)
#: The settings that are asked for first; others follow by the number of runs that have them.
_FIRST = ("lr", "beta", "seed", "epsilon", "temperature", "group_size", "batch_size", "algo", "loss_type")
#: Names and versions, which are not what a run was changed in.
_NEVER = re.compile(
    r"(^|[._])(name|dir|path|id|uuid|time|date|host|user|version|versions|url|commit|pid|port)$"
)


def settings_in_path(label: str) -> dict[str, Setting]:
    """Return the settings that a path spells out: ``lr3e-6-seed2`` or ``beta=0.01``."""
    found: dict[str, Setting] = {}
    for name, sign, value in _SETTING.findall(label):
        if sign == "=" or name.lower() in _IN_PATHS:
            found[_short(name.lower())] = float(value)
    return found


def settings_of_run(config: Mapping[str, Setting], label: str) -> dict[str, Setting]:
    """Return a run's settings by short name; those of its ``run.json`` precede those of its path."""
    return settings_in_path(label) | {_short(name): value for name, value in config.items()}


#: Settings that hold the number of GPUs, and pairs of which the product is it.
_GPUS = ("n_gpus", "num_gpus", "gpus", "world_size", "processes", "num_processes")
_GPU_PAIRS = (("n_gpus_per_node", "nnodes"), ("gpus_per_node", "num_nodes"))


def gpus_of(config: Mapping[str, Setting]) -> float | None:
    """Return the number of GPUs that a run's configuration names; None if it names none."""
    named = {
        name.rpartition(".")[2]: float(value)
        for name, value in config.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    }
    products = (named[one] * named[other] for one, other in _GPU_PAIRS if one in named and other in named)
    return next(products, next((named[name] for name in _GPUS if name in named), None))


def _short(name: str) -> str:
    return _SHORT.get(name.rpartition(".")[2], name)


def differing(settings: Iterable[Mapping[str, Setting]]) -> list[str]:
    """Return the names of the settings that have several values among the runs, those to look at first first.

    A text that is another one in each run is a name and no setting.
    """
    values: dict[str, list[Setting]] = {}
    for each in settings:
        for name, value in each.items():
            values.setdefault(name, []).append(value)
    found = [name for name, given in values.items() if not _NEVER.search(name) and _tells(given)]
    place = {name: at for at, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (place.get(name, len(place)), -len(values[name]), name))


def _tells(values: list[Setting]) -> bool:
    different = Counter(map(str, values))
    is_name = any(isinstance(value, str) for value in values) and len(different) == len(values) > 2
    return len(different) > 1 and not is_name


def setting_text(value: Setting | None) -> str:
    """Return a setting as people write it: 3e-6, 0.04, on, dapo; empty if the run does not have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    text = f"{value:.4g}"
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", text)


# -- run rows ------------------------------------------------------------------------------------------
# Rows of the table of runs: what is known of each run, for the browser, the order and the filter.


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
