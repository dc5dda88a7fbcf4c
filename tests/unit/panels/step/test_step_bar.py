"""The step bar: what it shows, and what it does with the browser's messages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rlpanel.panels.session.context import Context
from rlpanel.panels.step.step_bar import StepBar
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import write_run
from tests.page_parts import send
from tests.property.test_invariants import follow
from tests.unit.store.snapshot.test_remarks import EVALUATED, write_trl


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A run of 40 steps, which follows the newest one."""
    context = Context()
    context.view = RunView(follow(RunIndex(write_run(tmp_path / "run", steps=40), "run")))
    return context


@pytest.fixture
def bar(context: Context) -> StepBar:
    return StepBar(context)


def do(bar: StepBar, *message: object) -> None:
    send(bar, list(message))


def shown(bar: StepBar) -> SimpleNamespace:
    return SimpleNamespace(**{name: getattr(bar, name) for name in ("steps", "position", "label")})


def test_without_steps_it_says_so() -> None:
    bar = StepBar(Context())
    assert (bar.label, bar.note, bar.steps) == ("", "no steps yet", 0)
    do(bar, "move", 1)
    do(bar, "select", 0.5)
    assert bar.context.selection.step is None


def test_it_shows_the_selected_step(bar: StepBar, context: Context) -> None:
    context.choose_step(7)
    assert vars(shown(bar)) == {"steps": 40, "position": 6, "label": "Step 7"}
    assert bar.note.startswith("of 40, ")
    assert not bar.follow


@pytest.mark.parametrize(("share", "step"), [(0, 1), (1, 40), (1.0, 40), (6 / 39, 7), (0.5, 21)])
def test_a_drag_shows_its_step_and_the_release_selects_it(
    bar: StepBar, context: Context, share: float, step: int
) -> None:
    do(bar, "show", share)
    assert shown(bar).label == f"Step {step}"
    assert context.selection.step == 40
    do(bar, "select", share)
    assert context.selection.step == step
    assert shown(bar).position == step - 1


def test_a_release_at_the_selected_step_restores_its_label(bar: StepBar, context: Context) -> None:
    """The drag ended where it began."""
    do(bar, "show", 0.2)
    do(bar, "select", 1)
    assert (shown(bar).label, context.selection.step) == ("Step 40", 40)


def test_buttons_and_switch(bar: StepBar, context: Context) -> None:
    do(bar, "move", -1)
    assert (context.selection.step, context.selection.follow) == (39, False)
    do(bar, "follow", True)
    assert context.selection.step == 40


@pytest.mark.parametrize(
    "message",
    [
        "select",
        [],
        ["select"],
        ["select", "0.5"],
        ["select", None],
        ["select", -0.1],
        ["select", 1.01],
        ["select", float("nan")],
        ["move", 10**9],
        ["move", [1]],
        ["follow", 1],
        [["select"], 0.5],
        {"select": 0.5},
        ["other", 0.5],
    ],
)
def test_other_messages_change_nothing(bar: StepBar, context: Context, message: object) -> None:
    before = dict(context.selection.param.values())
    send(bar, message)
    assert dict(context.selection.param.values()) == before


def test_a_step_that_may_hold_an_evaluation_says_so(tmp_path: Path) -> None:
    context = Context()
    write_trl(tmp_path, EVALUATED)
    context.view = RunView(follow(RunIndex(tmp_path, "run")))
    bar = StepBar(context)
    context.selection.step = 4
    doubts = [bar.doubts]
    context.selection.step = 3
    assert [*doubts, bar.doubts] == ["may hold evaluation samples", ""]
