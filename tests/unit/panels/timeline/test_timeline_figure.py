"""The plot of the tab: it is kept while spans are read, and handles every kind of click."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bokeh.events import DoubleTap, PressUp, Tap

from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_table import Window
from rlpanel.panels.timeline.timeline_plot import Timeline, picture_of, timeline_of
from rlpanel.panels.timeline.timeline_view import TimelineFigure
from tests.unit.panels.timeline.test_swim_lanes import times

PART = Window(1.0, 2.0, 0, 2)


def rollouts(*seconds: float) -> RolloutTimes:
    made = times([(0, 0.0, length) for length in seconds])
    each = np.arange(len(seconds))
    return replace(made, owner=each, begin=0 * made.seconds, end=made.seconds, phase=0 * each)


class Shown:
    """A `TimelineFigure` in a document, and the clicks that it handled."""

    def __init__(self) -> None:
        self.clicks: list[tuple[float, float]] = []
        self.figure = TimelineFigure(lambda x, y: None, lambda x, y: self.clicks.append((x, y)))
        self.root: Any = self.figure.__panel__().get_root()

    def show(self, of: RolloutTimes, window: Window | None = None) -> Timeline:
        timeline = timeline_of(of, dark=True)
        self.figure.show_timeline(timeline, picture_of(timeline, window), "step 1", window)
        return timeline

    @property
    def plot(self) -> Any:
        return self.root.children[0] if hasattr(self.root, "children") else self.root

    @property
    def seconds(self) -> tuple[float, float]:
        return self.plot.x_range.start, self.plot.x_range.end


def test_the_plot_is_kept_while_spans_are_read_and_the_viewer_zooms() -> None:
    shown = Shown()
    sums = rollouts(3.0, 2.0, 1.0)
    shown.show(sums)
    first = shown.plot
    shown.show(sums, PART)
    shown.show(replace(sums, exact=3), None)
    assert shown.plot is first


def test_more_rollouts_of_the_same_step_are_in_view() -> None:
    shown = Shown()
    shown.show(rollouts(3.0, 2.0))
    first = shown.plot
    shown.show(rollouts(3.0, 2.0, 5.0))
    assert shown.plot is first
    assert shown.seconds == (0.0, 5.0)
    assert (shown.plot.y_range.start, shown.plot.y_range.end) == (3.0, 0.0)


def test_a_new_plot_shows_the_part_that_the_viewer_chose() -> None:
    shown = Shown()
    sums = rollouts(3.0, 2.0, 1.0)
    shown.show(sums)
    shown.show(replace(sums, phases=(*sums.phases, "judge")), PART)
    assert shown.seconds == (PART.start, PART.stop)


@pytest.mark.parametrize("click", [Tap, DoubleTap, PressUp])
def test_quick_and_slow_clicks_are_clicks(click: Any) -> None:
    shown = Shown()
    shown.show(rollouts(3.0, 2.0))
    shown.plot._trigger_event(click(shown.plot, x=1.0, y=0.5))
    assert shown.clicks == [(1.0, 0.5)]
