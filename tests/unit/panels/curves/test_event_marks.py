"""Marks of events and of a chain of changes: texts, numbers, the list for keyboards, and their order."""

from __future__ import annotations

from pathlib import Path

from bokeh.models import GlyphRenderer, Text

import rlpanel
from rlpanel.panels.curves.curve_bar import Curve
from rlpanel.panels.curves.curve_card import CurveCard
from rlpanel.panels.curves.curve_marks import MAX_MARKS, marks_of
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import ChainMark
from rlpanel.store.query.run_events import RunEvent
from tests.factories import write_run
from tests.page_parts import send

CHAIN = [
    ChainMark(1, "lr of the trainer 0.1 → 2", "0.1 → 2", "lr"),
    ChainMark(2, "turns 4 → 2 (-50%)", "4 → 2 (-50%)", "turns"),
    ChainMark(3, "reward 1 → 0.5", "1 → 0.5", "reward"),
]


def test_a_step_names_its_change_before_its_events() -> None:
    marks = marks_of([RunEvent(2, "evaluation", "eval"), RunEvent(2, "note", "lowered lr")], CHAIN)
    assert list(marks) == [1, 2, 3]
    assert (marks[2].kind, marks[2].label) == ("chain", "2")
    said = "change 2 of 3: turns 4 → 2 (-50%) · note: lowered lr · evaluation: eval"
    assert marks[2].text == said


def test_changes_of_one_step_share_a_mark_and_stay_when_there_are_many_events() -> None:
    together = [ChainMark(700, "a", "0 → 1", "a"), ChainMark(700, "b", "1 → 0", "b")]
    marks = marks_of([RunEvent(step, "evaluation", "eval") for step in range(900)], together)
    assert len(marks) == MAX_MARKS
    assert marks[700].label == "1, 2"
    assert marks[700].effects == {"a": "0 → 1", "b": "1 → 0"}


def test_the_curve_of_a_change_has_its_levels_and_others_its_number(tmp_path: Path) -> None:
    context = Context(view=rlpanel.open_run(write_run(tmp_path, steps=4), follow=False).view)
    context.chain_marks = CHAIN
    labels = {}
    for column in ("reward", "response_chars"):
        figure = CurveCard(context, Curve(column, column, (column,))).plot.figure
        (texts,) = (each for each in figure.select(GlyphRenderer) if isinstance(each.glyph, Text))
        labels[column] = dict(
            zip(texts.data_source.data["step"], texts.data_source.data["label"], strict=True)
        )
    assert labels == {
        "reward": {"1": "1", "2": "2", "3": "3: 1 → 0.5"},
        "response_chars": {"1": "1", "2": "2", "3": "3"},
    }


def test_labels_of_near_steps_stand_apart(tmp_path: Path) -> None:
    context = Context(view=rlpanel.open_run(write_run(tmp_path, steps=40), follow=False).view)
    context.chain_marks = [ChainMark(step, "", "") for step in (20, 21, 22, 39)]
    figure = CurveCard(context, Curve("reward", "reward", ("reward",))).plot.figure
    (texts,) = (each for each in figure.select(GlyphRenderer) if isinstance(each.glyph, Text))
    drawn = texts.data_source.data
    assert drawn["align"] == ["right", "right", "left", "right"]
    assert drawn["down"].tolist() == [0, 12, 0, 24]


def test_the_list_of_events_selects_a_step(tmp_path: Path) -> None:
    context = Context(view=rlpanel.open_run(write_run(tmp_path, steps=4), follow=False).view)
    curves = Curves(context)
    bar = curves.bar
    assert bar.events == []
    context.chain_marks = CHAIN
    assert [step for step, _ in bar.events] == [1, 2, 3]
    send(bar, ["event", 2])
    assert (context.selection.step, bar.step, context.selection.follow) == (2, 2, False)
    send(bar, ["event", 4])  # no mark has this step
    assert context.selection.step == 2
