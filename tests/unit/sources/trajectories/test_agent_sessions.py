"""Sessions of Claude Code, Codex, Pi and other agents: a file is one sample, and it grows."""

from __future__ import annotations

import codecs
import gzip
import json
import shutil
import time
from pathlib import Path, PurePath
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory, discover, open_file
from tests.plain_reader import FOLDER
from tests.unit.sources.trajectories.reading import DATA, samples, spoken
from tests.waiting import wait_until

SESSION = "3f0c1f0e-1111-4222-8333-444455556666"


def test_a_session_of_claude_code_is_one_sample() -> None:
    (sample,) = samples(DATA / "claude-code")
    assert spoken(sample) == [
        ("user", "Add up „2“ and 3."),
        ("assistant", "Read Bash"),
        ("tool", "2"),
        ("tool", "command not found"),
        ("environment", "API Error: overloaded"),
        ("assistant", "It is 5."),
    ]
    assert (sample.prompt, sample.messages[1]["reasoning_content"]) == (
        "[user] Add up „2“ and 3.",
        "I use both tools.",
    )
    columns = sample.columns
    assert (columns["turns"], columns["tool_calls"], columns["tool_errors"]) == (2, 2, 1)
    assert (columns["tool_errors.Bash"], columns["tool_errors.Read"]) == (1, 0)
    # An answer's usage is repeated with each of its parts: 20 + 7 tokens.
    assert (columns["response_tokens"], columns["metrics/prompt_tokens"]) == (27, 200)
    assert (columns["abandoned_messages"], columns["sidechain_messages"], columns["seconds"]) == (1, 2, 10)
    assert (sample.step, sample.extra["git_branch"], columns.get("reward")) == (0, "main", None)


def test_a_byte_order_mark_before_the_events_is_passed_over(tmp_path: Path) -> None:
    for name in ("codex-vault/rollout.jsonl", "rolloutviz-letta/letta-trajectory-v1.json"):
        folder = tmp_path / name.partition("/")[0]
        folder.mkdir()
        (folder / PurePath(name).name).write_bytes(codecs.BOM_UTF8 + (FOLDER / name).read_bytes())
        (marked,), (plain,) = samples(folder), samples((FOLDER / name).parent)
        assert marked.messages
        assert marked.messages == plain.messages


def test_the_sessions_of_codex_are_one_run_with_a_sample_each() -> None:
    assert [info.name for info in discover(DATA / "codex")] == ["."]
    new, old = samples(DATA / "codex")
    assert spoken(new) == [
        ("developer", "Ask before you write."),
        ("user", "What is in „a.txt“?"),
        ("assistant", "shell"),
        ("tool", '{"output":"2\\n","metadata":{"exit_code":0}}'),
        ("assistant", "apply_patch"),
        ("tool", "Error: no such file"),
        ("assistant", "There is a 2."),
    ]
    assert new.messages[2]["reasoning_content"] == "I read it."
    assert new.messages[4]["tool_calls"][0]["arguments"] == "*** Begin Patch"
    columns = new.columns
    assert (columns["turns"], columns["tool_calls"], columns["response_tokens"], columns["seconds"]) == (
        3,
        2,
        42,
        8,
    )
    assert spoken(old) == [("user", "Hello."), ("assistant", "Good day.")]


def test_session_traces_give_the_way_to_the_newest_message() -> None:
    llama, pi, simple = samples(DATA / "session-traces")
    assert spoken(llama) == [("user", "Why?"), ("assistant", "Because.")]
    assert llama.columns["abandoned_messages"] == 1
    assert spoken(pi) == [
        ("user", "Read „a“."),
        ("assistant", "read"),
        ("tool", "no file"),
        ("environment", "$ ls\nb"),
        ("assistant", "There is only b."),
    ]
    assert (pi.columns["turns"], pi.columns["tool_errors.read"], pi.columns["response_tokens"]) == (2, 1, 14)
    assert pi.columns["seconds"] == 6
    assert spoken(simple) == [
        ("system", "Be exact."),
        ("user", "What time is it?"),
        ("assistant", "get_time"),
        ("tool", "15:00"),
        ("assistant", "It is 15:00."),
    ]
    assert (simple.columns["tool_calls.get_time"], simple.columns["seconds"]) == (1, 3.5)
    assert simple.messages[2]["reasoning_content"] == "I ask the clock."


@pytest.mark.parametrize("ending", ["", "\n", '\n{"type":"user","mess'])
def test_a_session_grows_while_it_is_followed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    lines = (DATA / "claude-code" / path.name).read_text("utf-8").splitlines()
    path.write_text("\n".join(lines[:2]) + "\n")
    with rlpanel.open_run(tmp_path) as run:
        wait_until(lambda: run.splits == {"eval": 1})
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines[2:]) + ending)
        wait_until(lambda: run.split("eval").samples().get("turns") is not None)
        assert len(run.split("eval").samples()["uid"]) == 1


def test_an_unfinished_line_is_named_and_what_comes_before_is_read(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    shutil.copy(DATA / "claude-code" / path.name, path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"\n", b"\nnot JSON\n42\n", 1) + b'{"type": "user", ')
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["line"].tolist() == [2, 3]
        assert "incomplete" in str(list(run.unread["reason"]))
        assert run.split("eval").samples()["turns"].tolist() == [2]


def test_a_compressed_session_is_read(tmp_path: Path) -> None:
    name = f"{SESSION}.jsonl"
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((DATA / "claude-code" / name).read_bytes()))
    (sample,) = samples(tmp_path)
    assert sample.columns["turns"] == 2


def event(uuid: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": role, "message": message}


def write(folder: Path, *events: dict[str, Any]) -> Path:
    (folder / "s.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    return folder


def test_messages_without_parents_are_all_read(tmp_path: Path) -> None:
    turns = [
        event(str(number), None, role, f"text {number}")
        for number, role in enumerate(("user", "assistant") * 3)
    ]
    (sample,) = samples(write(tmp_path, *turns))
    assert [text for _, text in spoken(sample)] == [f"text {number}" for number in range(6)]


def test_a_session_continues_behind_a_summary(tmp_path: Path) -> None:
    before = [event("1", None, "user", "Ask."), event("2", "1", "assistant", "Told.")]
    boundary = {"uuid": "3", "parentUuid": None, "logicalParentUuid": "2", "type": "system", "sessionId": "s"}
    after = [event("4", "3", "user", "A summary."), event("5", "4", "assistant", "On.")]
    (sample,) = samples(write(tmp_path, *before, boundary, *after))
    assert [text for _, text in spoken(sample)] == ["Ask.", "Told.", "A summary.", "On."]


def test_a_parents_circle_ends(tmp_path: Path) -> None:
    circle = [event("1", "2", "user", "Ask."), event("2", "1", "assistant", "Told.")]
    (sample,) = samples(write(tmp_path, *circle))
    assert len(sample.messages) == 2


def test_lines_of_other_programs_are_not_read(tmp_path: Path) -> None:
    rows = [{"type": "message", "role": "user", "content": "x"}, {"type": "session", "id": 3}, {"uuid": "1"}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert discover(tmp_path) == []


def test_a_sample_is_not_fetched_after_its_session_has_gone_on(tmp_path: Path) -> None:
    path = (
        write(tmp_path, event("1", None, "user", "Ask."), event("2", "1", "assistant", "Told.")) / "s.jsonl"
    )
    (file,) = Directory(tmp_path).files(tmp_path)
    reader = open_file(file, Reading())
    (chunk,) = reader.poll(1 << 20)
    assert reader.fetch(chunk.locators[0]).texts["response"] == "Told."
    path.write_text(path.read_text() + json.dumps(event("3", "2", "user", "More.")) + "\n")
    with pytest.raises(rlpanel.SourceChanged):
        reader.fetch(chunk.locators[0])


def test_rows_of_a_data_set_are_sessions(tmp_path: Path) -> None:
    """The Hub converts files of sessions to tables; keys of other events are null in each."""
    rows = []
    for path in (*DATA.glob("claude-code/*.jsonl"), DATA / "session-traces" / "simple.jsonl"):
        events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        keys = dict.fromkeys(key for event in events for key in event)
        traces: list[Any] = [dict.fromkeys(keys) | event for event in events]
        rows.append(
            {"harness": path.parent.name, "session_id": path.stem, "traces": traces, "file_name": path.name}
        )
    rows.append(rows[0] | {"traces": [json.dumps(event) for event in rows[0]["traces"]]})
    rows.append({"harness": "unknown", "session_id": "1", "traces": [{"text": "x"}], "file_name": "x"})
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["reason"].tolist() == ["no known events in a session of 'unknown'"]
        table = run.split("eval").samples()
        assert (table["turns"].tolist(), table["tool_calls"].tolist()) == ([2, 2, 2], [2, 1, 2])


def test_an_exported_sample_keeps_its_step_and_reward(tmp_path: Path) -> None:
    outcome = {
        "step": 7,
        "uid": "a:0",
        "rank": -1,
        "reward": 0.5,
        "rewards/style": 1.0,
        "group": "g",
        "split": "train",
    }
    lines = [
        {"type": "session", "harness": "rlpanel", "id": "a:0", "rlpanel": outcome},
        {"type": "message", "id": "0", "parentId": None, "message": {"role": "user", "content": "Ask."}},
        {"type": "message", "id": "1", "parentId": "0", "message": {"role": "assistant", "content": "Told."}},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (sample,) = samples(tmp_path, "train")
    assert (sample.step, sample.reward, sample.group, sample.columns["rewards/style"]) == (7, 0.5, "g", 1)
    assert (sample.prompt, sample.response) == ("[user] Ask.", "Told.")


def test_a_session_may_begin_with_many_summaries(tmp_path: Path) -> None:
    summaries = [{"type": "summary", "summary": "Before.", "leafUuid": str(number)} for number in range(50)]
    (sample,) = samples(
        write(tmp_path, *summaries, event("1", None, "user", "Ask."), event("2", "1", "assistant", "Told."))
    )
    assert len(sample.messages) == 2


def test_branches_that_were_left_are_not_shown(tmp_path: Path) -> None:
    events = [
        event("1", None, "user", "Ask."),
        event("2", "1", "assistant", "Left."),
        event("3", "2", "user", "Left, too."),
        event("4", "3", "assistant", "And this."),
        event("5", "1", "assistant", "Told."),
        event("6", "gone", "user", "Of a part that is not in the file."),
        event("7", "5", "user", "More."),
    ]
    (sample,) = samples(write(tmp_path, *events))
    assert [text for _, text in spoken(sample)] == [
        "Ask.",
        "Told.",
        "Of a part that is not in the file.",
        "More.",
    ]
    assert sample.columns["abandoned_messages"] == 3


def test_a_long_session_without_a_way_to_its_beginning_is_read_in_linear_time(tmp_path: Path) -> None:
    before = [event(f"a{n}", f"a{n - 1}" if n else None, "user", "x") for n in range(20_000)]
    write(tmp_path, *before, event("b", None, "user", "On."), event("c", "b", "assistant", "Told."))
    begin = time.process_time()
    (sample,) = samples(tmp_path)
    assert len(sample.messages) == 20_002
    assert time.process_time() - begin < 30  # quadratic: minutes
