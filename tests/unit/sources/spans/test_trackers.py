"""Logs of trackers and tracers, written by their own packages (tests/data/spans/README.md)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.sources.spans.call_tree import exchange_fields, read_exchange
from rlpanel.store.index.run_index import RunIndex

DATA = Path(__file__).parents[3] / "data" / "spans"


def read(folder: Path, *names: str) -> list[Sample]:
    """The samples of copies of these files, in the order of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(DATA / name, folder)
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty
        return [run.sample(uid) for uid in run.samples()["uid"]]


def roles(sample: Sample) -> list[str]:
    return [message["role"] for message in sample.messages]


def rewards(samples: list[Sample], name: str) -> list[float]:
    return [sample.columns[f"rewards/{name}"] for sample in samples]


def test_trackios_traces_keep_their_step_group_and_reward(tmp_path: Path) -> None:
    samples = read(tmp_path / "run", "trackio.db")
    assert [(each.step, each.group) for each in samples] == [
        (step, f"q{step}") for step in range(3) for _ in range(4)
    ]
    assert [each.reward for each in samples] == [0.0, 1.0] * 6
    assert roles(samples[5]) == ["system", "user", "assistant", "tool", "assistant"]
    assert samples[5].messages[2]["tool_calls"][0]["name"] == "add"
    assert samples[5].prompt_messages == 2
    assert samples[5].columns["tool_calls"] == 1


def test_trackios_database_is_read_again_after_it_grew(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(DATA / "trackio.db", run)
    index = RunIndex(run, "run")
    index.rescan()
    while index.read():
        pass
    assert len(index.snapshot.alive_rows) == 12
    with closing(sqlite3.connect(run / "trackio.db")) as connection, connection:
        connection.execute("UPDATE traces SET step = 9 WHERE rowid = 1")
        connection.execute("DELETE FROM traces WHERE rowid > 4")
    index.rescan()
    while index.read():
        pass
    assert index.view.frame(index.snapshot.alive_rows)["step"].tolist() == [9, 0, 0, 0]
    assert [path.name for path in run.iterdir() if not path.name.startswith(".")] == ["trackio.db"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW traces AS SELECT * FROM other",
        "CREATE VIRTUAL TABLE traces USING fts5(messages)",
        "CREATE TABLE notes (messages TEXT)",
    ],
)
def test_another_database_is_no_run(tmp_path: Path, statement: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("CREATE TABLE other (run_name, step, key, messages, metadata)")
        connection.execute(statement)
    with pytest.raises(rlpanel.RunNotFound):
        rlpanel.open_run(tmp_path, follow=False)


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    content = bytearray((DATA / "trackio.db").read_bytes())
    content[1024:4096] = b"\xff" * 3072
    read_run = tmp_path / "run"
    read_run.mkdir()
    (read_run / "trackio.db").write_bytes(bytes(content))
    (read_run / "good.jsonl").write_text('{"step": 1, "prompt": "p", "response": "r"}\n')
    with rlpanel.open_run(read_run, follow=False) as run:
        unread = run.snapshot.unread
    assert [each.file for each in unread] == ["trackio.db"]
    assert "damaged" in unread[0].reason


@pytest.mark.parametrize("name", ["otlp.jsonl", "sdk.jsonl"])
def test_each_call_of_a_model_is_a_sample_of_its_trace(tmp_path: Path, name: str) -> None:
    samples = read(tmp_path / "run", name)
    assert len(samples) == 3
    assert len({each.episode for each in samples}) == 3
    assert roles(samples[1]) == ["system", "user", "assistant", "tool", "assistant"]
    assert samples[1].messages[2]["tool_calls"] == [{"name": "look", "arguments": '{"q": 1}', "id": "c1"}]
    assert samples[1].messages[4]["reasoning_content"] == "hm"
    assert samples[1].response == "hm\nanswer 1"
    assert rewards(samples, "correct") == [0.0, 1.0, 0.0]
    assert samples[1].columns["response_tokens"] == 12
    assert samples[1].finish_reason == "stop"


def test_mlflows_trace_is_a_sample(tmp_path: Path) -> None:
    samples = read(tmp_path / "run", "mlflow.jsonl")
    assert [(each.prompt, each.response) for each in samples] == [
        ("[user] q0", "a0"),
        ("[user] q1", "a1"),
        ("[user] q0", "a2"),
        ("[user] q1", "a3"),
    ]
    assert rewards(samples, "correct") == [0.0, 1.0, 0.0, 1.0]
    assert [each.ground_truth for each in samples] == ["a0", "a1", "a2", "a3"]
    assert samples[0].columns["seconds"] == 1.5


def test_langsmiths_runs_without_a_parent_are_samples(tmp_path: Path) -> None:
    samples = read(tmp_path / "run", "langsmith.jsonl")
    assert [each.prompt for each in samples] == [f"[user] task {n // 2}" for n in range(4)]
    assert roles(samples[2]) == ["user", "assistant", "tool", "assistant"]
    assert rewards(samples, "correct") == [0.0, 1.0, 0.0, 1.0]
    assert len({each.group for each in samples}) == 2
    assert [each.columns["response_tokens"] for each in samples] == [20, 21, 22, 23]


def test_langfuses_traces_and_generations_are_samples(tmp_path: Path) -> None:
    traces = [
        {
            "id": f"t{n}",
            "timestamp": "2026-05-01T12:00:00Z",
            "htmlPath": f"/project/p/traces/t{n}",
            "name": "agent",
            "input": {"question": f"q{n}"},
            "output": {"role": "assistant", "content": f"a{n}"},
            "scores": [{"name": "correct", "value": n, "dataType": "NUMERIC"}],
        }
        for n in range(2)
    ]
    calls = [
        {
            "id": f"o{n}",
            "trace_id": "t0",
            "type": kind,
            "input": json.dumps([{"role": "user", "content": "q"}]),
            "output": json.dumps({"role": "assistant", "content": f"c{n}"}),
            "usage_details": json.dumps({"input": 3, "output": 7}),
        }
        for n, kind in enumerate(["SPAN", "GENERATION", "EVENT"])
    ]
    for name, rows in (("a_traces", traces), ("b_observations", calls)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    samples = read(tmp_path)
    assert [(each.prompt, each.response) for each in samples] == [
        ("q0", "a0"),
        ("q1", "a1"),
        ("[user] q", "c1"),
    ]
    assert [each.columns.get("rewards/correct") for each in samples][:2] == [0.0, 1.0]
    assert samples[2].episode == "t0"
    assert samples[2].columns["response_tokens"] == 7


@pytest.mark.parametrize(
    ("logged", "shown"),
    [
        ("text", "text"),
        ('{"messages": [{"role": "user", "content": "q"}]}', [{"role": "user", "content": "q"}]),
        (
            {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
            [{"role": "assistant", "content": "a"}],
        ),
        ([[{"type": "human", "content": "q"}]], [{"type": "human", "role": "human", "content": "q"}]),
        ({"code": 3, "ok": True}, '{"code": 3, "ok": true}'),
        ([], "[]"),
        (None, ""),
        ("[not JSON", "[not JSON"),
    ],
)
def test_an_input_or_output_gives_messages_or_text(logged: Any, shown: Any) -> None:
    assert read_exchange(logged) == shown


def test_an_output_that_repeats_the_input_is_the_conversation() -> None:
    asked = [{"role": "user", "content": "q"}]
    fields = dict(exchange_fields(asked, [*asked, {"role": "assistant", "content": "a"}]))
    assert fields == {"prompt": asked, "response": [{"role": "assistant", "content": "a"}]}
