"""The message about a folder without runs: its files, why they are not logs, and the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.errors import RunNotFound
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
    assert sight.what == "rows with 'prompt', 'answer'; no step: --map step=0 reads all as step 0"


def test_likely_files_are_told_and_the_others_counted(tmp_path: Path) -> None:
    append(tmp_path / "z.jsonl", b'{"a": 1}\n')
    for number in range(20):
        (tmp_path / f"weights-{number}.safetensors").write_bytes(b"")
    found = look(tmp_path)
    assert ([sight.name for sight in found.seen], found.others) == (["z.jsonl"], 20)


@pytest.mark.parametrize(
    ("keys", "mapping"),
    [
        (("question", "answer", "score", "global_step"),
         "prompt=question,response=answer,reward=score,step=global_step"),
        (("prompt", "completion", "iteration"), "response=completion,step=iteration"),
        (("left", "right"), "prompt=KEY,response=KEY"),
        (("prompt", "completion", "answer", "reward"), "response=completion,step=0"),
        (("messages", "reward"), "step=0"),
    ],
)  # fmt: skip
def test_a_mapping_is_offered_for_odd_lines(tmp_path: Path, keys: tuple[str, ...], mapping: str) -> None:
    append(tmp_path / "log.jsonl", json.dumps(dict.fromkeys(keys, "x")).encode() + b"\n")
    assert look(tmp_path).mapping == mapping


@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_lines_without_a_step_are_told_with_the_option_that_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As verifiers' saved results: the step is all that is missing."""
    line = {"prompt": "2 + 2?", "completion": "4", "reward": 1.0}
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([line]), tmp_path / name)
    else:
        append(tmp_path / name, json.dumps(line).encode() + b"\n")
    found = look(tmp_path)
    assert found.seen[0].what.endswith("; no step: --map step=0 reads all as step 0")
    with pytest.raises(RunNotFound, match=f"with --map {found.mapping}\\."):
        rlpanel.open_run(tmp_path, follow=False)
    monkeypatch.setenv("RLPANEL_MAP", found.mapping)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples(text=True)[["step", "response", "reward"]].values.tolist() == [[0, "4", 1.0]]


@pytest.mark.parametrize("name", ["step_12.jsonl", "12.jsonl"])
def test_a_step_in_the_files_name_is_none_that_is_missing(tmp_path: Path, name: str) -> None:
    append(tmp_path / name, b'{"question": "2 + 2?", "output": "4"}\n')
    found = look(tmp_path)
    assert (found.seen[0].what, found.mapping) == (
        "lines with 'question', 'output'", "prompt=question,response=output",
    )  # fmt: skip


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
