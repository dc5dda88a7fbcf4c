"""The message about a folder without runs: its files, why they are not logs, and the remedy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.errors import RunNotFound
from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import Diagnosis, diagnose
from rlpanel.sources.discovery.directory import Directory
from tests.factories import append


def look(root: Path) -> Diagnosis:
    return diagnose(Directory(root))


def test_a_folder_that_is_not_there_is_awaited_and_a_near_name_is_offered(tmp_path: Path) -> None:
    (tmp_path / "experiment-7").mkdir()
    found = look(tmp_path / "experimnt-7")
    assert found.title == "No such folder yet"
    assert found.sentence.startswith(f"Did you mean {tmp_path / 'experiment-7'}? ")
    assert look(tmp_path / "other").sentence == "Runs appear here as soon as the folder exists."


def test_an_empty_folder_waits_for_data(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert (found.title, found.seen) == ("No data yet", ())
    assert any("SAVE_ROLLOUT_DATA" in hint for hint in found.hints)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("log.jsonl", b'{"epoch": 1, "loss": 0.5}\n', "lines with 'epoch', 'loss'"),
        ("log.jsonl", json.dumps(dict.fromkeys("abcdefgh", 1)).encode() + b"\n",
         "lines with 'a', 'b', 'c', 'd', 'e', 'f' and 2 more"),
        ("log.jsonl", b"", "empty"),
        ("log.jsonl", b'{"step": 1, "pro', "no complete line yet"),
        ("log.jsonl", b"[1, 2]\n", "its first line is a JSON array where an object was expected"),
        ("log.jsonl", b"{oh\n", "not valid JSON: key must be a string at column 2"),
        ("0.pt", b"\x80\x02", "PyTorch file; slime dumps can be converted: rlpanel convert slime FOLDER"),
        ("trainer_state.json", b"{}", "trainer scalars, no rollouts"),
        ("x.parquet", b"PAR1", "is incomplete or damaged"),
        ("notes.md", b"x", "neither .jsonl nor .parquet"),
        ("trainer_log.jsonl", b'{"current_steps": 1}\n', "trainer scalars, no rollouts"),
        ("generations.log", b"[prompt] p\n[output] a\n[score] 1.0\n\n", "EasyR1's free text"),
    ],
)  # fmt: skip
def test_each_file_is_told_in_a_few_words(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / name).write_bytes(content)
    (sight,) = look(tmp_path).seen
    assert sight.name == f"exp/{name}"
    assert sight.what.startswith(what)


def test_a_data_sets_columns_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"prompt": ["p"], "answer": ["a"]}), tmp_path / "train.parquet")
    (sight,) = look(tmp_path).seen
    assert sight.what == "rows with 'prompt', 'answer'"


def test_likely_files_are_told_and_the_others_counted(tmp_path: Path) -> None:
    append(tmp_path / "z.jsonl", b'{"a": 1}\n')
    for number in range(20):
        (tmp_path / f"weights-{number}.safetensors").write_bytes(b"")
    found = look(tmp_path)
    assert ([sight.name for sight in found.seen], found.others) == (["z.jsonl"], 20)


PAIR = {"question": "2 + 2?", "output": "4"}
CHAT = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
#: Records that are not opened by themselves: how, what is said, and the mapping that opens them.
REFUSED = {
    "a data set": (
        [PAIR] * 3, "3 records in 1 file: question, output",
        "no reward, and nothing shows that a policy wrote the texts",
        "prompt=question,response=output,step=0",
    ),
    "a chat": (
        [{"id": 1, "messages": CHAT}], "1 record in 1 file: id, messages",
        "no reward, and nothing shows that a policy wrote the texts", "step=0",
    ),
    "two readings": (
        [PAIR | {"passed": i % 2, "correct": i % 3} for i in range(6)],
        "6 records in 1 file: question, output, passed, correct",
        "two readings are about equal: correct or passed",
        "prompt=question,response=output,reward=correct,step=0",
    ),
    "a format without a key": (
        [{"input": "q", "output": "a", "step": 1}], "1 record in 1 file: input, output, step",
        "is not read: it looks like a log of verl, but has no 'score'", "prompt=input,response=output",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_the_command_that_is_printed_opens_what_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    records, found, problem, mapping = REFUSED[kind]
    append(tmp_path / "log.jsonl", *(json.dumps(each).encode() + b"\n" for each in records))
    with pytest.raises(RunNotFound) as refused:
        rlpanel.open_run(tmp_path, follow=False)
    first, second, command = str(refused.value).splitlines()
    assert first == f"{tmp_path} holds no rollouts: {found}"
    assert second == f"log.jsonl: {problem}"
    assert shlex.split(command) == ["rlpanel", "index", str(tmp_path), "--map", mapping]
    monkeypatch.setenv("RLPANEL_MAP", mapping)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        shown = run.samples(text=True)
        assert len(shown) == len(records)
        assert shown["response"].tolist() == ["4" if kind != "a format without a key" else "a"] * len(records)
        assert run.errors.empty
        assert run.unread.empty


@pytest.mark.parametrize("name", ["step_12.jsonl", "12.jsonl"])
def test_a_step_in_the_files_name_is_none_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    append(tmp_path / name, b'{"prompt": "2 + 2?", "response": "4"}\n')
    found = look(tmp_path)
    assert (found.seen[0].what, found.mapping) == ("lines with 'prompt', 'response'", "response=response")
    monkeypatch.setenv("RLPANEL_MAP", found.mapping)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples(text=True)[["step", "response"]].values.tolist() == [[12, "4"]]


def test_records_without_a_text_are_mapped_by_questions(tmp_path: Path) -> None:
    append(tmp_path / "a file.jsonl", b'{"left": 1, "right": 2}\n')
    first, second, command = look(tmp_path).lines(tmp_path)
    assert first.endswith("1 record in 1 file: left, right")
    assert second == "a file.jsonl: no key holds a response"
    assert command == f"rlpanel map {tmp_path}"


def test_a_mapped_key_that_no_record_has_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", b'{"question": "q", "deep": {"result": "a"}, "iteration": 1}\n')
    said = diagnose(Directory(tmp_path, Reading(map="response=result"))).lines(tmp_path)
    assert (
        "map response=result: no record has the key 'result'; did you mean response=deep.result?" in said[1]
    )


def test_records_of_files_with_the_same_keys_are_counted_together(tmp_path: Path) -> None:
    for number in range(3):
        append(tmp_path / f"part-{number}.jsonl", *[json.dumps(PAIR).encode() + b"\n"] * 30)
    append(tmp_path / "other.jsonl", b'{"a": 1}\n')
    assert look(tmp_path).lines(tmp_path)[0].endswith(": 90 records in 3 files: question, output")


def test_hidden_folders_with_rollouts_are_named_and_those_of_programs_left_out(tmp_path: Path) -> None:
    for folder in (".runs/a", ".git", ".venv/lib"):
        (tmp_path / "exp" / folder).mkdir(parents=True)
        append(tmp_path / "exp" / folder / "log.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
    (tmp_path / ".config").mkdir()
    append(tmp_path / ".config" / "other.jsonl", b'{"a": 1}\n')
    (sight,) = look(tmp_path).seen
    assert (sight.name, sight.what) == (
        "exp/.runs/", "a hidden folder with rollouts; name it as the folder to open",
    )  # fmt: skip
    assert [info.name for info in rlpanel.discover(tmp_path / "exp" / ".runs")] == ["a"]


def test_a_mapping_that_is_not_understood_is_told_here_too(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", b'{"a": 1}\n')
    (tmp_path / "rlpanel.toml").write_text("[map\n")
    assert look(tmp_path).hints[0].startswith("rlpanel.toml is ignored")


@pytest.mark.parametrize(
    "line",
    [
        {"name": "chat qwen", "context": {"trace_id": "0x1", "span_id": "0x2"}, "attributes": {}},
        {"resourceSpans": [{"scopeSpans": []}]},
        {"traceId": "1", "spanId": "2", "name": "chat", "input": "hi"},
    ],
)
def test_spans_of_opentelemetry_are_named_and_get_no_mapping(tmp_path: Path, line: dict[str, object]) -> None:
    """A mapping of their keys to a prompt and a response would show something else than conversations."""
    (tmp_path / "spans.jsonl").write_text(json.dumps(line) + "\n")
    found = diagnose(Directory(tmp_path))
    assert found.seen[0].what == "spans of OpenTelemetry, which are not read"
    assert found.mapping == ""


def test_a_packed_log_that_is_not_read_is_named_with_the_command_that_unpacks_it(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"algo": "grpo", "beta": 0.1}')
    (tmp_path / "rollout_data_rank_0.jsonl.xz").write_bytes(b"\xfd7zXZ")
    (tmp_path / "model.xz").write_bytes(b"\xfd7zXZ")
    found = look(tmp_path)
    said = "rollout_data_rank_0.jsonl.xz: packed, which is not read: xz -dk rollout_data_rank_0.jsonl.xz"
    assert any(said in line for line in found.lines(tmp_path))
    assert [sight.name for sight in found.left_out] == ["rollout_data_rank_0.jsonl.xz"]
