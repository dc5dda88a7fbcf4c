"""The step bar while earlier steps are added."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.panels.session.context import Context
from rlpanel.panels.step.step_bar import StepBar
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import write_run
from tests.property.test_invariants import follow


@pytest.fixture
def snapshots(tmp_path: Path) -> list[Snapshot]:
    """The newest three steps, then all."""
    runs = [write_run(tmp_path / name, steps=steps) for name, steps in (("few", range(38, 41)), ("all", 40))]
    return [follow(RunIndex(run, "run")) for run in runs]


def test_a_browser_that_answers_late_moves_nothing(snapshots: list[Snapshot]) -> None:
    """It was told the third place of three, which is step 40, and says so when that is step 3."""
    context = Context()
    bar = StepBar(context)
    for snapshot in snapshots:
        context.view = RunView(snapshot)
    bar._slider.value = 2
    assert "Step 40<" in bar._label.object
    assert bar._slider.value == 39


def test_a_slider_that_is_dragged_shows_its_step(snapshots: list[Snapshot]) -> None:
    context = Context()
    bar = StepBar(context)
    context.view = RunView(snapshots[1])
    context.move_step(-1)
    for place, step in ((38, 39), (39, 40), (2, 3)):
        bar._slider.value = place
        assert f"Step {step}<" in bar._label.object
