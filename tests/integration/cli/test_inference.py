"""What commands print about files that no format describes, and about keys of a mapping."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.factories import append
from tests.integration.cli.command_line import run_in

SOLVED = [{"task_id": f"t/{i // 2}", "completion": f"return {i}", "passed": i % 2 == 0} for i in range(6)]
ODD = [{"iteration": i // 2, "input": "q", "output": str(i), "score": {"value": i % 2}} for i in range(4)]


def put(folder: Path, records: list[dict[str, Any]], name: str = "log.jsonl") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    append(folder / name, *(json.dumps(record).encode() + b"\n" for record in records))


def test_index_prints_what_was_inferred_and_from_what(tmp_path: Path) -> None:
    put(tmp_path / "run", SOLVED)
    done = run_in(tmp_path, "rlpanel index run")
    assert "response ← completion, 100 % of the records are texts (named so by TRL, human-eval" in done.stdout
    assert "reward ← passed, 100 % of the records are numbers (named so by human-eval)" in done.stdout
    said = (
        "Fields were guessed: response ← completion, reward ← passed, group ← task_id; no step: all samples "
    )
    assert (done.returncode, done.stderr) == (0, f"{said}are step 0.\n")


def test_index_gives_what_was_inferred_as_json(tmp_path: Path) -> None:
    put(tmp_path / "run", SOLVED)
    (inferred,) = json.loads(run_in(tmp_path, "rlpanel index run --json").stdout)["inferred"]
    assert {field["field"]: field["key"] for field in inferred["fields"]} == {
        "response": "completion",
        "reward": "passed",
        "group": "task_id",
    }
    assert all(0 < field["confidence"] <= 1 and field["reason"] for field in inferred["fields"])
    assert (inferred["step"], inferred["missing"]) == (0, ["prompt", "step"])


@pytest.mark.parametrize("command", ["steps run", "samples run", "check run", "findings run", "index run"])
def test_each_command_says_that_no_record_has_a_mapped_key(tmp_path: Path, command: str) -> None:
    put(tmp_path / "run", ODD)
    mapping = "prompt=input,response=output,reward=value,step=iteration"
    done = run_in(tmp_path, f"rlpanel {command} --map {mapping}")
    said = "not read: map reward=value: no record has the key 'value'; did you mean reward=score.value?\n"
    assert said in done.stderr
    assert done.returncode == 3


def test_an_item_of_a_list_may_be_mapped_by_its_number(tmp_path: Path) -> None:
    put(tmp_path / "run", [{"step": 1, "prompt": "q", "response": "a", "marks": [0.25, 0.75]}])
    done = run_in(tmp_path, "rlpanel samples run --map reward=marks.1 --jsonl --columns reward")
    assert (json.loads(done.stdout)["reward"], done.stderr) == (0.75, "")
    done = run_in(tmp_path, "rlpanel samples run --map reward=marks.2 --jsonl")
    assert "no record has the key 'marks.2'" in done.stderr


def test_runs_says_of_a_folder_without_runs_what_the_other_commands_say(tmp_path: Path) -> None:
    put(tmp_path / "data set", [{"question": "q", "output": "a"}] * 3)
    listed, indexed = (run_in(tmp_path, f"rlpanel {name} 'data set'") for name in ("runs", "index"))
    assert listed.stdout == ""
    assert len(listed.stderr.splitlines()) == 3
    first, second, command = listed.stderr.splitlines()
    assert first.endswith("holds no rollouts: 3 records in 1 file: question, output")
    assert second == "log.jsonl: no reward, and nothing shows that a policy wrote the texts"
    assert shlex.split(command)[:2] == ["rlpanel", "runs"]
    assert "data set:" not in run_in(tmp_path, command).stderr
    assert indexed.returncode == 2
    assert indexed.stderr.splitlines()[1:] == [second, command.replace("rlpanel runs", "rlpanel index")]
    opened = run_in(tmp_path, indexed.stderr.splitlines()[2])
    assert (opened.returncode, opened.stdout.split()[:2]) == (0, ["rows", "3"])


def test_bad_lines_are_printed_with_their_beginning(tmp_path: Path) -> None:
    put(tmp_path / "run", SOLVED)
    append(
        tmp_path / "run" / "log.jsonl",
        b'{"completion": \x1b[31m "\xe7\xad\x94' + b"x" * 200 + b'\n{"a": 1}\n',
        b"{oh\n",
    )
    done = run_in(tmp_path, "rlpanel index run --bad 2")
    bad = done.stdout.splitlines()[-3:]
    assert bad[0].startswith("log.jsonl:7: not valid JSON")
    assert bad[0].endswith('{"completion": \\x1b[31m "答' + "x" * 57)
    assert bad[1].endswith(': {"a": 1}')
    assert bad[2] == "1 more bad lines"
    documents = json.loads(run_in(tmp_path, "rlpanel index run --bad 9 --json").stdout)["bad"]
    assert [(each["file"], each["line"]) for each in documents] == [("log.jsonl", line) for line in (7, 8, 9)]
    assert documents[2]["text"] == "{oh"


def test_a_bad_row_of_a_table_is_named_without_bytes_of_the_file(tmp_path: Path) -> None:
    """The place of a row is its number, where that of a line is an offset."""
    (tmp_path / "run").mkdir()
    good = json.dumps([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
    with closing(sqlite3.connect(tmp_path / "run" / "project.db")) as connection, connection:
        connection.execute("CREATE TABLE traces (run_name, step, key, messages, metadata)")
        for messages in (good, "no messages"):
            connection.execute("INSERT INTO traces VALUES ('r', 1, 'k', ?, '{}')", (messages,))
    (bad,) = json.loads(run_in(tmp_path, "rlpanel index run --bad 1 --json").stdout)["bad"]
    assert (bad["file"], bad["line"], bad["text"]) == ("project.db", 2, "")
