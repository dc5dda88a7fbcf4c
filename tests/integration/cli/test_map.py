"""``rlpanel map``: proposes fields, asks, shows three samples, and prints a command that reads the run so."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from rlpanel.sources.mapping.first_records import ASKED
from tests.factories import append
from tests.integration.cli.command_line import answered_at_terminal, run_in
from tests.unknown_files import COUNT, FILES, write_unknown


def typed_for(name: str) -> str:
    """Return what a person types: the corrected keys in the order of the questions, else only Enter."""
    keys = FILES[name].keys
    return "".join(f"{keys.get(field, '')}\n" for field in ASKED) + "\n" * 6


def counts(folder: Path, line: str) -> dict[str, Any]:
    """Return what a command ``index`` counts."""
    read = json.loads(run_in(folder, line, "--json").stdout)
    return {name: read[name] for name in ("rows", "steps", "bad_lines")}


@pytest.mark.parametrize("name", FILES)
def test_the_printed_command_reads_what_was_shown(tmp_path: Path, name: str) -> None:
    write_unknown(tmp_path, name)
    asked = run_in(tmp_path, "rlpanel map .", typed=typed_for(name))
    assert asked.returncode == 0, asked.stderr
    assert [f"sample {number}" in asked.stdout for number in (1, 3, 4)] == [True, True, False]
    command = next(line for line in asked.stdout.splitlines() if line.startswith("rlpanel index "))
    read = counts(tmp_path, command)
    assert (read["rows"], read["bad_lines"]) == (COUNT, 0)
    option = shlex.join(shlex.split(command)[3:])
    saved = run_in(tmp_path, f"rlpanel map . {option} --yes --save")
    assert saved.returncode == 0, saved.stderr
    assert counts(tmp_path, "rlpanel index .") == read


def test_a_wrong_key_is_asked_for_again(tmp_path: Path) -> None:
    write_unknown(tmp_path, "misspelt.jsonl")
    asked = run_in(tmp_path, "rlpanel map .", typed="qest\n" + typed_for("misspelt.jsonl"))
    assert "no record has 'qest'; did you mean quest?" in asked.stdout
    assert asked.returncode == 0


def test_without_a_terminal_it_says_what_to_do(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    done = run_in(tmp_path, "rlpanel map .")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes" in done.stderr
    done = run_in(tmp_path, "rlpanel map . --yes")
    assert done.returncode == 0
    assert "response       ← completion" in done.stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rlpanel map nosuch --yes", "No such file"),
        ("rlpanel map empty --yes", "no file with records"),
        ("rlpanel map . --yes --file plain.json", "did you mean plain.jsonl?"),
        ("rlpanel map . --yes --map prompt=nosuch,response=nosuch", "cannot be read so"),
    ],
)
def test_what_cannot_be_mapped_is_one_line_with_its_reason(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "empty").mkdir()
    write_unknown(tmp_path, "plain.jsonl")
    done = run_in(tmp_path, line)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_known_format_needs_no_mapping(tmp_path: Path) -> None:
    append(tmp_path / "1.jsonl", b'{"input": "q", "output": "a", "score": 1.0, "step": 1}\n')
    done = run_in(tmp_path, "rlpanel map . --yes")
    assert (done.returncode, done.stdout) == (
        0,
        "1.jsonl needs no mapping: it is read as verl\nrlpanel index .\n",
    )


def test_no_text_of_a_file_controls_a_real_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07 \x9b31m \u202eback\r over \x00"
    line = json.dumps({"question": evil, "completion": evil, f"k{evil}": evil}).encode() + b"\n"
    append(tmp_path / "log.jsonl", line * 4)
    shown, code = answered_at_terminal(tmp_path, "rlpanel map .", "\n" * 9)
    assert code == 0, shown
    assert "sample 3" in shown
    assert {char for char in shown if not char.isprintable()} == {"\n"}
