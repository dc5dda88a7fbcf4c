"""The spans of a timeline as one table: their lanes, places, colours and labels."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlpanel.panels.language.labels import tr
from rlpanel.panels.timeline.rollout_spans import OTHER, RolloutTimes
from rlpanel.panels.ui import theme
from rlpanel.texts.shorten import plot_text

# -- span colors ---------------------------------------------------------------------------------------
# Colours and labels of a timeline: by phase, policy version or lag; English in notebooks.


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


# -- swim lanes ----------------------------------------------------------------------------------------
# Puts rollouts into lanes: the slowest first, or by rank or worker at the time when they ran.


SLOWEST, BY_RANK, BY_WORKER = "slowest first", "by rank", "by worker"


@dataclass(frozen=True)
class SwimLanes:
    """Lanes of R rollouts.

    Attributes
    ----------
    lane : ndarray of int, shape (R,)
        Lane of each rollout, from 0 at the top.
    offset : ndarray of float, shape (R,)
        Seconds at which the rollout starts on the axis.
    count : int
        Number of lanes.
    names : list of (int, str)
        First lane of each named group of lanes, and its name.
    seconds : float
        Length of the axis.
    """

    lane: np.ndarray
    offset: np.ndarray
    count: int
    names: list[tuple[int, str]]
    seconds: float


def orders_of(times: RolloutTimes) -> list[str]:
    """Return the orders that the times allow: lanes by rank or worker require times of day."""
    if not len(times) or not np.isfinite(times.start).all():
        return [SLOWEST]
    return [SLOWEST, BY_RANK, BY_WORKER] if times.worker else [SLOWEST, BY_RANK]


def lanes_of(times: RolloutTimes, order: str, labels: TimelineLabels = ENGLISH_LABELS) -> SwimLanes:
    """Return the lanes of a step's rollouts in an order of `orders_of`."""
    if order == BY_RANK:
        ranks, place = np.unique(times.rank, return_inverse=True)
        names = [labels.rank.format(rank=rank) if rank >= 0 else labels.no_rank for rank in ranks.tolist()]
        return _by_place(times, place, names)
    if order == BY_WORKER:
        workers, place = np.unique(times.worker, return_inverse=True)
        return _by_place(times, place, [name or labels.no_worker for name in workers.tolist()])
    return _slowest_first(times)


def _slowest_first(times: RolloutTimes) -> SwimLanes:
    """Return one lane per rollout; all of them start at zero."""
    lane = np.empty(len(times), np.int64)
    lane[np.argsort(-times.seconds, kind="stable")] = np.arange(len(times))
    longest = float(times.seconds.max(initial=0.0))
    return SwimLanes(lane, np.zeros(len(times)), len(times), [], longest)


def _by_place(times: RolloutTimes, place: np.ndarray, labels: list[str]) -> SwimLanes:
    """Return lanes by rank or worker: as few as hold rollouts that overlap."""
    offset = times.start - times.start.min()
    lane = np.empty(len(times), np.int64)
    names: list[tuple[int, str]] = []
    first = 0
    for number, label in enumerate(labels):
        members = np.flatnonzero(place == number)
        members = members[np.argsort(offset[members], kind="stable")]
        names.append((first, label))
        first += _fill_lanes(lane, members, offset, times.seconds, first)
    return SwimLanes(lane, offset, first, names, float((offset + times.seconds).max()))


def _fill_lanes(
    lane: np.ndarray, members: np.ndarray, offset: np.ndarray, seconds: np.ndarray, first: int
) -> int:
    """Give each member, in the order of their starts, a free lane from ``first`` on; return their number."""
    free: list[tuple[float, int]] = []  # end of the last rollout of each lane
    used = 0
    for member in members.tolist():
        end = float(offset[member] + seconds[member])
        if free and free[0][0] <= offset[member]:
            at = heapq.heapreplace(free, (end, free[0][1]))[1]
        else:
            at, used = used, used + 1
            heapq.heappush(free, (end, at))
        lane[member] = first + at
    return used


# -- span table ----------------------------------------------------------------------------------------
# The spans of a timeline as one table: where each of them is drawn, and in which colour.


#: Length of the mark of a failed rollout as a share of the axis.
_MARK = 0.006


@dataclass(frozen=True)
class Window:
    """The part of a timeline that is in view: seconds, and whole lanes from the top."""

    start: float
    stop: float
    first: int
    last: int

    @property
    def lanes(self) -> int:
        """Number of lanes in view."""
        return self.last - self.first


@dataclass(frozen=True)
class SpanTable:
    """S spans.

    Attributes
    ----------
    lane : ndarray of int, shape (S,)
    start, stop : ndarray of float, shape (S,)
        Seconds on the axis.
    code : ndarray of int, shape (S,)
        Position in ``names``; -1 if not known.
    rollout : ndarray of int, shape (S,)
        Position of the span's rollout.
    names, colors : tuple of str
    lanes : int
    seconds : float
        Length of the axis.
    """

    lane: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    code: np.ndarray
    rollout: np.ndarray
    names: tuple[str, ...]
    colors: tuple[str, ...]
    lanes: int
    seconds: float

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def window(self) -> Window:
        """The window that shows everything."""
        return Window(0.0, self.seconds, 0, self.lanes)

    def inside(self, window: Window) -> np.ndarray:
        """Return the positions of the spans that a window shows at least a part of."""
        lanes = (self.lane >= window.first) & (self.lane < window.last)
        return np.flatnonzero(lanes & (self.stop >= window.start) & (self.start <= window.stop))


def span_table(
    times: RolloutTimes,
    lanes: SwimLanes,
    coloring: Coloring,
    dark: bool,
    labels: TimelineLabels = ENGLISH_LABELS,
) -> SpanTable:
    """Return the table of a step's rollouts; failed ones have a mark at their end."""
    if coloring.of_spans:
        rollout, begin, end = times.owner, times.begin, times.end
    else:
        rollout, begin, end = np.arange(len(times)), np.zeros(len(times)), times.seconds
    failed = np.flatnonzero(times.failed)
    length = lanes.seconds * (1 + _MARK if len(failed) else 1) or 1.0
    names, colors = coloring.names, coloring.colors
    if len(failed):
        names, colors = (*names, labels.failed), (*colors, theme.palette(dark)["bad"])
    ends = times.seconds[failed]
    rollout = np.concatenate([rollout, failed])
    offset = lanes.offset[rollout]
    return SpanTable(
        lane=lanes.lane[rollout],
        start=offset + np.concatenate([begin, ends]),
        stop=offset + np.concatenate([end, ends + _MARK * length]),
        code=np.concatenate([coloring.code, np.full(len(failed), len(names) - 1)]),
        rollout=rollout,
        names=names,
        colors=colors,
        lanes=lanes.count,
        seconds=length,
    )
