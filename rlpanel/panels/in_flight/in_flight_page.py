"""Page of the run: rollouts in flight, the slowest first, counts by phase, and what each batch waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.sources.live.live_file_reader import LiveFileReader
from rlpanel.sources.live.live_rollout import LiveRollout
from rlpanel.store.query.flight import Flight, WaitingBatch, in_flight_of
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible

#: Most rollouts on screen, and seconds between two readings.
SHOWN, EVERY = 200, 2.0


def has_live(snapshot: Snapshot) -> bool:
    """Return whether live files beside the log name rollouts."""
    return snapshot.has_live


class FlightView(Component):
    """Counts, batches and rollouts, drawn by ``in_flight.js``; all values are texts and numbers."""

    flight = param.Dict(default={}, doc="As made by `flight_payload`.")

    _esm = read_assets("panels/ui/dom.js", "panels/in_flight/in_flight.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/in_flight/in_flight.css")]


class InFlightPage(Viewer):
    """The rollouts in flight, read on a thread every two seconds while the page is open.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._read_at = 0.0
        self._reads = False
        self._files: LiveFileReader | None = None
        self._index: object = None
        self._work: BackgroundTask[Flight] = BackgroundTask(self._show, context.threads.queries)
        self._view = FlightView(sizing_mode="stretch_width", margin=(4, 8), css_classes=["rl-in-flight"])
        self._column = pn.Column(self._view, sizing_mode="stretch_both", scroll="y-auto", margin=0)
        context.param.watch(self._draw, ["view", "now"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context = self.context
        if not self.active or context.index is None:
            self._work.stop()
            self._reads = False
            return
        is_other = context.index is not self._index
        if is_other:
            self._index, self._files = context.index, LiveFileReader(context.index.path)
            self._view.flight = {}
        if self._files is None or (
            not is_other and (self._reads or time.monotonic() - self._read_at < EVERY)
        ):
            return
        self._read_at, self._reads = time.monotonic(), True
        self._work.start(_read(self._files, context.snapshot))

    def _show(self, found: Flight) -> None:
        self._reads = False
        self._view.flight = flight_payload(found, time.time())


def _read(files: LiveFileReader, snapshot: Snapshot) -> Iterator[Flight]:
    now = time.time()
    yield in_flight_of(snapshot, files.read(now), now)


def flight_payload(found: Flight, now: float) -> dict[str, Any]:
    """Return everything in flight as texts; at most `SHOWN` rollouts."""
    shown = found.rollouts[:SHOWN]
    lost = tr("{lost:,} lost", lost=found.lost) if found.lost else ""
    counts = [tr("{total:,} in flight", total=found.total), lost]
    if len(found.rollouts) > SHOWN:
        counts.append(tr("the slowest {shown:,} are shown", shown=SHOWN))
    return {
        "counts": " · ".join(filter(None, counts)),
        "phases": [[escape_invisible(phase), count] for phase, count in found.phases.items()][:SHOWN],
        "batches": [_batch_text(batch) for batch in found.batches],
        "idle": [[escape_invisible(name), number(value)] for name, value in found.idle.items()],
        "remarks": [escape_invisible(remark) for remark in found.remarks],
        "replay": tr("A rollout can be replayed once its line is in the log.") if shown else "",
        "empty": tr("No rollout is in flight.") if not found.rollouts and not found.total else "",
        "rollouts": [_row(rollout, now) for rollout in shown],
        "slowest": max((each.seconds(now) or 0.0 for each in shown), default=0.0),
    }


def _batch_text(batch: WaitingBatch) -> str:
    seconds = "?" if batch.slowest is None else f"{batch.slowest:,.0f}"
    if batch.done is None:
        return tr(
            "Step {step:,} waits for {waits:,} rollouts, the slowest since {seconds} s.",
            step=batch.step,
            waits=batch.waits,
            seconds=seconds,
        )
    return tr(
        "Step {step:,} waits for {waits:,} of {total:,} rollouts, the slowest since {seconds} s.",
        step=batch.step,
        waits=batch.waits,
        total=batch.waits + batch.done,
        seconds=seconds,
    )


def _row(rollout: LiveRollout, now: float) -> dict[str, Any]:
    seconds = rollout.seconds(now)
    silent = None if rollout.updated is None else max(0.0, now - rollout.updated)
    return {
        "id": escape_invisible(rollout.id),
        "names": escape_invisible(" · ".join(filter(None, (rollout.agent, rollout.env, rollout.worker)))),
        "step": "" if rollout.step is None else tr("step {step:,}", step=rollout.step),
        "phase": escape_invisible(rollout.phase),
        "turns": f"{rollout.turns:,}",
        "tokens": "" if rollout.tokens is None else f"{rollout.tokens:,}",
        "seconds": seconds,
        "silent": "" if silent is None else f"{silent:,.0f}",
        "lost": escape_invisible(rollout.lost),
        "text": escape_invisible(rollout.text),
    }
