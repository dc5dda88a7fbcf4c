"""Events of a run: restarts, evaluations, the trainer's events and notes on steps, and what is not valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SampleNotFound
from rlpanel.queries.events import events
from rlpanel.queries.reports.claim_report import annotate
from rlpanel.recording import RolloutWriter
from rlpanel.store.query.run_events import EVENTS_FILE, MAX_TEXT, note_step

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"


def listed(folder: Path) -> tuple[list[tuple[int, str, str]], list[str]]:
    with rlpanel.open_run(folder, follow=False) as run:
        table = events(run.data)
    return [(row["step"], row["kind"], row["text"]) for row in table.rows], table.about["unread"]


def written(folder: Path, *, steps: int = 3) -> Path:
    with RolloutWriter(folder) as writer:
        for step in range(1, steps + 1):
            writer.write(step=step, prompt="p", response=f"r{step}", reward=0.5)
    return folder


def test_the_trainer_reports_an_event_and_a_viewer_notes_a_step(tmp_path: Path) -> None:
    written(tmp_path)
    with RolloutWriter(tmp_path) as writer:
        assert writer.event("curriculum", 2, "level 3")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        table = annotate(run.data, "step:3", note=HOSTILE)
        assert [row["uid"] for row in table.rows] == ["step:3"]
    assert listed(tmp_path) == ([(2, "event", "curriculum: level 3"), (3, "note", HOSTILE)], [])
    with rlpanel.open_run(tmp_path, follow=False) as run:
        annotate(run.data, "step:3", note="")
        assert run.snapshot.samples == 3  # the file of events is no log
    assert listed(tmp_path)[0] == [(2, "event", "curriculum: level 3")]


def test_evaluations_and_restarts_are_events(tmp_path: Path) -> None:
    begin, later = 0x1A2202CD2C3, 0x1A2202FF2C3  # milliseconds since the epoch
    rows = []
    for start, steps in ((begin, (1, 2, 3, 4)), (later, (3, 4))):
        for step in steps:
            row = {"step": step, "prompt": "p", "response": f"{start}-{step}", "session": f"{start:x}-1"}
            rows.append(row | {"time": start / 1000 + step})
    for step, split in ((2, "valid"), (3, "discarded"), (4, "discarded valid")):
        rows.append({"step": step, "prompt": "q", "response": "c", "split": split, "session": f"{begin:x}-1"})
    (tmp_path / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, problems = listed(tmp_path)
    assert problems == []
    assert (2, "evaluation", "samples of the split valid") in found
    assert {each[2] for each in found if each[1] == "evaluation"} == {"samples of the split valid"}
    assert [each[:2] for each in found if each[1] == "resume"] == [(3, "resume")]


def test_what_is_not_an_event_is_counted_and_said(tmp_path: Path) -> None:
    written(tmp_path)
    good = {"step": 1, "name": "x" * 5000}
    wrong = [{"step": 1}, {"name": "a"}, {"step": True, "name": "a"}, {"step": 1.5, "name": "a"}, [], 3]
    lines = [json.dumps(each) for each in [good, *wrong]]
    (tmp_path / EVENTS_FILE).write_text("\n".join([*lines, "{", "", '{"step": 1e999, "name": "a"}']))
    (tmp_path / "run.json").write_text(json.dumps({"events": [{"step": 3, "name": "lr", "text": "1e-6"}]}))
    found, [problem] = listed(tmp_path)
    assert found == [(1, "event", "x" * MAX_TEXT), (3, "event", "lr: 1e-6")]
    assert problem == f"{EVENTS_FILE}: 8 of 9 events have no step or name"


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    written(tmp_path / "run")
    (tmp_path / "secret").write_text('{"step": 1, "name": "secret"}\n')
    (tmp_path / "run" / EVENTS_FILE).symlink_to(tmp_path / "secret")
    found, problems = listed(tmp_path / "run")
    assert found == []
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("uid", "step"), [("step:4", 4), ("step:-1", -1), ("step:", None), ("step:x", None), ("a.jsonl:4", None)]
)
def test_only_a_step_stands_for_a_step(uid: str, step: int | None) -> None:
    assert note_step(uid) == step


def test_a_note_on_a_sample_still_needs_the_sample(tmp_path: Path) -> None:
    written(tmp_path)
    with rlpanel.open_run(tmp_path, follow=False) as run, pytest.raises(SampleNotFound):
        annotate(run.data, "steps:4", note="x")
