"""Tags and notes that a browser sends: only for samples that are shown, and of a bounded length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.panels.sample.sample_detail import SampleActions
from rlpanel.panels.session.context import Context
from rlpanel.store.query.notes_beside_log import FILE, MAX_NOTE, MAX_TAG, Notes
from tests.factories import write_run
from tests.page_parts import send


@pytest.fixture
def context(tmp_path: Path) -> Context:
    run = rlpanel.open_run(write_run(tmp_path / "run", steps=1, samples=4), follow=False)
    made = Context(index=run.index)
    made.view = run.view
    made.choose_sample(run.snapshot.uid(0))
    return made


def leave(actions: SampleActions, uid: object, tag: object = "odd", note: object = "") -> None:
    """Send what the fields of a sample send."""
    send(actions, {"do": "leave", "uid": uid, "tag": tag, "note": note})


def test_the_shown_sample_and_the_one_before_get_notes(context: Context) -> None:
    actions = SampleActions(context)
    first, second = context.snapshot.uid(0), context.snapshot.uid(1)
    context.choose_sample(second)
    leave(actions, first, "before")
    leave(actions, second, "now")
    assert context.notes is not None
    assert [context.notes.of(uid).tag for uid in (first, second)] == ["before", "now"]
    assert actions.failure == ""


@pytest.mark.parametrize("uid", ["A" * 900_000, "nowhere.jsonl:0", "rollout_data_rank_0.jsonl:1", "\x1b"])
def test_any_other_uid_is_refused(context: Context, uid: str) -> None:
    actions = SampleActions(context)
    leave(actions, uid)
    assert "this sample is not shown" in actions.failure
    assert not (Path(str(context.index.path)) / FILE).exists()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("tag", "note", "said"),
    [
        ("x" * (MAX_TAG + 1), "", "a tag has at most 40 characters, and this one has 41"),
        ("", "雨" * 900_000, "a note has at most 2,000 characters, and this one has 900,000"),
    ],
)
def test_a_text_that_is_too_long_is_refused_and_not_cut(
    context: Context, tag: str, note: str, said: str
) -> None:
    actions = SampleActions(context)
    leave(actions, context.snapshot.uid(0), tag, note)
    assert said in actions.failure
    assert Notes(context.index.path).empty  # type: ignore[union-attr]
    leave(actions, context.snapshot.uid(0), "x" * MAX_TAG, "雨" * MAX_NOTE)
    assert actions.failure == ""


@pytest.mark.parametrize("odd", [None, 1, ["x"], {"x": {}}])
def test_what_is_no_text_is_ignored(context: Context, odd: Any) -> None:
    actions = SampleActions(context)
    leave(actions, context.snapshot.uid(0), note=odd)
    assert Notes(context.index.path).empty  # type: ignore[union-attr]


def test_some_of_many_tags_are_suggested(context: Context) -> None:
    assert context.notes is not None
    for number in range(120):
        context.notes.write(f"rollout_data_rank_0.jsonl:{number}", f"tag {number:03}", "")
    assert SampleActions(context).used == [f"tag {number:03}" for number in range(100)]
