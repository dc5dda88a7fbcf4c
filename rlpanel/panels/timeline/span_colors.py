"""Colours and labels of a timeline: by phase, policy version or lag; English in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlpanel.panels.language.labels import tr
from rlpanel.panels.timeline.rollout_spans import OTHER, RolloutTimes
from rlpanel.panels.ui import theme
from rlpanel.texts.shorten import plot_text


@dataclass(frozen=True)
class TimelineLabels:
    """Labels in one language. Texts with braces are templates.

    Attributes
    ----------
    phases : mapping of str to str
        Labels of phases by name; a phase that is not listed is shown by its name.
    """

    phases: Mapping[str, str] = field(default_factory=dict)
    version: str = "version {version}"
    policy_version: str = "policy version {version}"
    lag: str = "lag {lag}"
    lag_or_more: str = "lag {lag} and more"
    failed: str = "failed"
    status: str = "status {status}"
    not_known: str = "not known"
    span: str = "{name} {seconds} s"
    total: str = "{seconds} s in total"
    mostly: str = "mostly"
    rollout: str = "rollout"
    rank: str = "rank {rank}"
    no_rank: str = "no rank"
    no_worker: str = "no worker"
    seconds: str = "seconds"


#: Labels of notebooks and scripts.
ENGLISH_LABELS = TimelineLabels()


def session_labels() -> TimelineLabels:
    """Return the labels in the language of the session that draws."""
    return TimelineLabels(
        phases={
            "queue": tr("queue"),
            "generation": tr("generation"),
            "tool": tr("tool"),
            "environment": tr("environment"),
            "score": tr("score"),
            "other": tr("other"),
        },
        version=tr("version {version}"),
        policy_version=tr("policy version {version}"),
        lag=tr("lag {lag}"),
        lag_or_more=tr("lag {lag} and more"),
        failed=tr("failed"),
        status=tr("status {status}"),
        not_known=tr("not known"),
        span=tr("{name} {seconds} s"),
        total=tr("{seconds} s in total"),
        mostly=tr("mostly"),
        rollout=tr("rollout"),
        rank=tr("rank {rank}"),
        no_rank=tr("no rank"),
        no_worker=tr("no worker"),
        seconds=tr("seconds"),
    )


PHASE, VERSION, LAG = "phase", "policy version", "lag"
#: Maximum numbers of versions with colours of their own, and of characters of a name from the log.
MAX_VERSIONS, NAME_CHARS = 6, 40
#: Colours of the theme for phases, and for the lags 0, 1, 2, and 3 or more.
_PHASE_COLORS = {
    "queue": "faint",
    "generation": "policy",
    "tool": "entropy",
    "environment": "length",
    "score": "reference",
    OTHER: "line",
}
_LAG_COLORS = ("good", "kl", "policy", "bad")


@dataclass(frozen=True)
class Coloring:
    """Colours of what is drawn.

    Attributes
    ----------
    names, colors : tuple of str
        Entries of the legend, and their colours as hex codes.
    code : ndarray of int
        Entry of each span if ``of_spans``, else of each rollout; -1 if not known.
    of_spans : bool
    """

    names: tuple[str, ...]
    colors: tuple[str, ...]
    code: np.ndarray
    of_spans: bool


def colorings_of(times: RolloutTimes) -> list[str]:
    """Return what the rollouts may be coloured by."""
    known = [(PHASE, True), (VERSION, np.isfinite(times.version).any()), (LAG, np.isfinite(times.lag).any())]
    return [name for name, logged in known if logged]


def color_spans(
    times: RolloutTimes, by: str, dark: bool, labels: TimelineLabels = ENGLISH_LABELS
) -> Coloring:
    """Return the colours of a step's rollouts by an entry of `colorings_of`."""
    colors = theme.palette(dark)
    if by == LAG:
        known = np.isfinite(times.lag)
        last = len(_LAG_COLORS) - 1
        code = np.where(known, np.clip(np.nan_to_num(times.lag), 0, last), -1).astype(np.int64)
        names = [labels.lag.format(lag=lag) for lag in range(last)] + [labels.lag_or_more.format(lag=last)]
        return Coloring(tuple(names), tuple(colors[name] for name in _LAG_COLORS), code, False)
    if by == VERSION:
        return _by_version(times.version, colors, labels)
    names = phase_names(times, labels)
    shades = tuple(colors[_PHASE_COLORS.get(name, "muted")] for name in times.phases)
    return Coloring(tuple(names), shades, times.phase, True)


def phase_names(times: RolloutTimes, labels: TimelineLabels) -> list[str]:
    """Return the labels of the phases; names from the log are cut."""
    return [labels.phases.get(name) or plot_text(name, NAME_CHARS) for name in times.phases]


def _by_version(version: np.ndarray, colors: dict[str, str], labels: TimelineLabels) -> Coloring:
    """Colour by version, from blue for the oldest to orange for the newest; many versions share colours."""
    known = np.isfinite(version)
    values, place = np.unique(version[known], return_inverse=True)
    parts = np.array_split(values, min(MAX_VERSIONS, len(values)))
    part = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    code = np.full(len(version), -1)
    code[known] = part[place]
    names = tuple(f"{each[0]:.0f}" if len(each) == 1 else f"{each[0]:.0f}–{each[-1]:.0f}" for each in parts)
    shares = np.linspace(0, 1, len(parts)) if len(parts) > 1 else np.ones(1)
    shades = tuple(_mixed(colors["reference"], colors["policy"], share) for share in shares.tolist())
    return Coloring(tuple(labels.version.format(version=name) for name in names), shades, code, False)


def _mixed(first: str, second: str, share: float) -> str:
    pairs = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
