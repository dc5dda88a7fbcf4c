"""The times of turns: from timestamps of real files, spans, or seconds; and sentences about broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.panels.conversation.conversation_payload import pack_conversation
from rlpanel.schema import Sample

DATA = Path(__file__).parents[3] / "data"


def score(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return the score of a sample of messages, of which the first is given."""
    found = pack_conversation(Sample(uid="a:0", step=1, messages=messages, prompt_messages=1, **fields))
    return dict(found.payload["score"])


def talk(*stamps: float | None, **fields: Any) -> list[dict[str, Any]]:
    """Return a question, and turns of the policy with these times."""
    given, *turns = stamps
    made: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
    made += [{"role": "assistant", "content": f"{at}", **fields} for at in range(len(turns))]
    return [
        message | ({} if stamp is None else {"timestamp": stamp})
        for message, stamp in zip(made, [given, *turns], strict=True)
    ]


def file_score(folder: str, uid: str) -> dict[str, Any]:
    with rlpanel.open_run(DATA / folder, follow=False) as run:
        return dict(pack_conversation(run.sample(uid)).payload["score"])


def test_harbors_steps_have_their_times() -> None:
    found = file_score("upstream/harbor-0.26.0", "hello__aaaaaaa/agent/trajectory.json:0")
    assert found["timed"]
    assert found["start"] == 1795687206.0  # 2026-11-26T10:00:06+00:00
    assert max(found["recorded"]) == 18.0
    assert max(found["shown"]) == 4.0 + 5.0  # 10:00:10 to 10:00:24 is shortened
    assert "1 stretch of more than 5 s without an event is shortened; 9 s are left out." in found["notes"]


def test_claude_codes_events_have_their_times() -> None:
    with rlpanel.open_run(DATA / "trajectories" / "claude-code", follow=False) as run:
        sample = run.sample(run.snapshot.uid(0))
    score = pack_conversation(sample).payload["score"]
    assert score["timed"]
    assert score["start"] == sample.timing["start"]


def test_verifiers_nodes_of_the_same_time_are_played_by_turn() -> None:
    found = file_score("upstream/verifiers-0.4.0/fork", "rollouts/step_1/train/all/traces.jsonl:0")
    assert not found["timed"]
    assert found["notes"] == ["Played by turn, one second each: all logged times are the same."]
    assert found["events"][0] == [0, -1]


def test_a_result_is_an_event_of_its_own_at_its_time() -> None:
    call = {"name": "add", "arguments": "{}", "id": "c"}
    messages = [
        {"role": "user", "content": "?", "timestamp": 2e9},
        {"role": "assistant", "content": "", "tool_calls": [call], "timestamp": 2e9 + 1},
        {"role": "tool", "tool_call_id": "c", "content": "3", "timestamp": 2e9 + 4},
        {"role": "assistant", "content": "3", "timestamp": 2e9 + 4.5},
    ]
    found = score(messages)
    assert found["events"] == [[0, -1], [1, -1], [1, 0], [2, -1]]
    assert found["turns"] == [0, 1, 1, 2]
    assert (found["recorded"], found["start"]) == ([0, 1, 4, 4.5], 2e9)


def test_spans_give_a_turn_the_end_of_its_generation() -> None:
    spans = (("generation", 1.0, 3.0), ("tool", 3.0, 7.0), ("generation", 7.5, 9.0))
    found = score(talk(None, None, None), spans=spans, timing={"start": 2e9})
    assert (found["recorded"], found["start"]) == ([0, 3, 9], 2e9)
    assert "spans" in found["notes"][0]


def test_spans_of_another_number_of_generations_place_nothing() -> None:
    assert not score(talk(None, None, None), spans=(("generation", 0.0, 3.0),))["timed"]


def test_seconds_are_added_up() -> None:
    found = score(talk(None, None, None, seconds=1.5))
    assert found["recorded"] == [0, 1.5, 3.0]
    assert found["start"] is None  # no view of another row can follow
    assert "added up" in found["notes"][0]


@pytest.mark.parametrize(
    ("stamps", "note"),
    [
        ((None, None, None), "Played by turn, one second each: the log has no times of turns."),
        ((4.0, 3.0, 2.0, 1.0), "at least half of the logged times go backwards"),
        ((1.0, 5.0, 4.0, 6.0, 7.0), "1 time goes backwards; it is shown at the time before it."),
        ((1.0, None, 3.0), "1 of 3 messages has no time; it is shown with the one before it."),
        ((None,), "There is one message only; there is nothing to play."),
    ],
)
def test_broken_and_missing_times_are_said(stamps: tuple[float | None, ...], note: str) -> None:
    found = score(talk(*stamps))
    assert any(note in each for each in found["notes"]), found["notes"]
    assert (np.diff(found["shown"]) >= 0).all()


def test_the_conversation_of_5_mb_is_sent_once_and_cut() -> None:
    call = {"name": "browser", "arguments": "{}"}
    turn = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "row of a page\n" * 360},
    ]
    messages = [{"role": "user", "content": "?"}, *turn * 1000]
    response = "row of a page\n" * 360_000
    sample = Sample(uid="a:0", step=1, messages=messages, prompt_messages=1, response=response)
    payload = pack_conversation(sample).payload
    sent = sum(len(call["result"]["text"]) for block in payload["blocks"] for call in block.get("calls", ()))
    assert len(payload["blocks"]) == 1001
    assert payload["blocks"][-1]["turn"] == 1000
    assert sent < 1_000_000
    assert payload["tokens"] is None
