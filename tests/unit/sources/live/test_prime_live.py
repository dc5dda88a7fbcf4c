"""prime-rl's live traces: dispatch, deltas, a torn last line, a new attempt, pending episodes and silence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlpanel.sources.live.live_file_reader import LiveFileReader, has_live
from rlpanel.sources.live.live_rollout import SILENT

DISPATCH = {
    "id": "e1",
    "kind": "train",
    "env": "swe",
    "group": "g1",
    "task": "t",
    "step": 4,
    "started": 100.0,
}


def first(**more: Any) -> dict[str, Any]:
    """The first delta of a trace, as verifiers' DeltaStreamer makes it, with prime-rl's dispatch."""
    return {"trace": "t1", "dispatch": DISPATCH, "open": {"version": 1, "id": "t1", "task": {}}, **more}


def turn(text: str, tokens: int) -> dict[str, Any]:
    node = {"parent": None, "message": {"role": "assistant", "content": text}, "sampled": True}
    tool = {"parent": 0, "message": {"role": "tool", "content": "ok"}, "sampled": False}
    return {"trace": "t1", "nodes": [node, tool], "calls": [{"usage": {"completion_tokens": tokens}}]}


@pytest.fixture
def live(tmp_path: Path) -> Path:
    folder = tmp_path / "monitors" / "file" / "traces" / "live"
    (folder / "pending").mkdir(parents=True)
    return folder


def write(path: Path, *deltas: object, torn: str = "", at: float = 200.0) -> None:
    path.write_text("".join(json.dumps(delta) + "\n" for delta in deltas) + torn)
    os.utime(path, (at, at))


def test_deltas_are_folded_and_only_new_bytes_are_read(live: Path, tmp_path: Path) -> None:
    files = LiveFileReader(tmp_path)
    timing = {"boot": {"start": 101.0, "end": 102.0}, "agent": {"start": 103.0, "end": 0.0}}
    deltas = [first(set={"agent": {"name": "solver"}, "timing": timing}), turn("I look.", 30)]
    write(live / "t1.jsonl", *deltas, torn='{"trace"')
    state = files.read(210.0)
    (found,) = state.rollouts
    assert (found.id, found.step, found.env, found.group, found.agent) == ("t1", 4, "swe", "g1", "solver")
    assert (found.turns, found.tokens, found.phase, found.text) == (1, 30, "generation", "I look.")
    assert found.seconds(210.0) == 110.0
    assert state.remarks == [
        "1 live file ends in the middle of a line; the rest is read once it is complete."
    ]
    scoring = {"trace": "t1", "set": {"timing": timing | {"scoring": {"start": 130.0, "end": 0.0}}}}
    write(live / "t1.jsonl", *deltas, turn("Done.", 12), scoring)
    (found,) = files.read(210.0).rollouts
    assert (found.turns, found.tokens, found.phase, found.text) == (2, 42, "score", "Done.")
    write(live / "t1.jsonl", first())  # a new attempt
    (found,) = files.read(210.0).rollouts
    assert (found.turns, found.tokens, found.text) == (0, None, "")


def test_pending_episodes_wait_in_the_queue(live: Path, tmp_path: Path) -> None:
    (live / "pending" / "e7.json").write_text(json.dumps(DISPATCH | {"id": "e7"}))
    (live / "pending" / "e8.json").write_text('{"id": "e8", "sta')
    (found,) = LiveFileReader(tmp_path).read(150.0).rollouts
    assert (found.id, found.phase, found.turns, found.seconds(150.0)) == ("e7", "queue", 0, 50.0)
    assert has_live(tmp_path)


def test_bad_lines_are_counted_and_an_ended_episode_is_gone(live: Path, tmp_path: Path) -> None:
    files = LiveFileReader(tmp_path)
    write(live / "t1.jsonl", first(), [1], {"nodes": [5]})
    assert files.read(210.0).remarks == ["2 lines of live files could not be read."]
    (live / "t1.jsonl").unlink()
    assert files.read(210.0).rollouts == []
    assert not has_live(tmp_path)


def test_a_folder_that_is_silent_has_lost_its_rollouts(live: Path, tmp_path: Path) -> None:
    write(live / "t1.jsonl", first(), turn("I look.", 3), at=1000.0)
    (found,) = LiveFileReader(tmp_path).read(1000.0 + SILENT + 5).rollouts
    assert found.lost == "lost after 1 turn: no live file changed for 605 s"


def test_live_files_are_no_samples(live: Path, tmp_path: Path) -> None:
    import rlpanel

    write(live / "t1.jsonl", first(), turn("I look.", 3))
    source = Path(__file__).parents[3] / "data" / "upstream" / "verifiers-0.4.0" / "fork"
    (live.parent / "stream").mkdir()
    traces = source / "rollouts" / "step_1" / "train" / "all" / "traces.jsonl"
    (live.parent / "stream" / "00000.jsonl").write_bytes(traces.read_bytes())
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.snapshot.all_samples == 4
        assert run.snapshot.has_live
        assert run.snapshot.bad_count == 0
