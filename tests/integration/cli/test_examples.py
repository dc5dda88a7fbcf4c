"""The examples in ``--help`` run, and all formats print the same data, which keeps to the schemas."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from rlpanel.app.demo import write_recording
from rlpanel.cli.commands import COMMANDS
from rlpanel.queries.catalogue import document_schema, question_of, row_schema
from tests.factories import append, line, write_run
from tests.integration.cli.command_line import run_in
from tests.unknown_files import write_unknown

EXAMPLES = {name: example for name, (_, example, _) in COMMANDS.items()}
#: Commands that run until they are stopped, or print no table.
SERVING = {"serve", "demo", "tail", "mcp", "halt", "top"}
OTHER = {
    "app-path",
    "check",
    "curriculum",
    "export",
    "gate",
    "index",
    "link",
    "lint",
    "map",
    "note",
    "schema",
    "skill",
    "tag",
}
#: Commands without rows for the recorded runs.
EMPTY = {
    *("prompts", "prompt-costs", "findings", "notes", "events", "errors", "drift", "corrections", "diverge"),
    *("reward-pays", "learned", "settings", "in-flight", "failures", "judges", "report"),
    *("experts", "taken-away"),
}
TABLE_COMMANDS = sorted(EXAMPLES.keys() - SERVING - OTHER)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs and one file of an unknown format, in which the examples run.

    They have all 64 samples of steps 10 and 20, and the first 4 of others: each command reads a run anew.
    """
    folder = tmp_path_factory.mktemp("examples")
    for name in ("exp1", "exp2"):
        run = write_recording("grpo_couplets", folder / "runs" / name)
        [log] = run.glob("rollout_data_*")
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(line for at, line in enumerate(lines) if at // 64 in (9, 19) or at % 64 < 4))
    (folder / "results").mkdir()
    write_unknown(folder / "results", "plain.jsonl")
    return folder


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_help_shows_the_example(home: Path, command: str) -> None:
    shown = run_in(home, f"rlpanel {command} --help").stdout
    assert EXAMPLES[command] in " ".join(shown.split())


@pytest.mark.parametrize("command", sorted(EXAMPLES.keys() - SERVING))
def test_the_example_runs(home: Path, command: str) -> None:
    done = run_in(home, EXAMPLES[command])
    # One baseline shows no spread between seeds: the gate cannot tell.
    assert done.returncode == (4 if command == "gate" else 0), done.stderr
    assert done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_all_formats_print_the_same_data_and_keep_to_the_schema(home: Path, command: str) -> None:
    import jsonschema  # takes two seconds

    document = json.loads(run_in(home, EXAMPLES[command], "--json").stdout)
    spec = question_of(document["table"]).spec
    jsonschema.validate(document, document_schema(spec))
    of_a_row = jsonschema.Draft202012Validator(row_schema(spec))
    of_a_row.check_schema(of_a_row.schema)
    rows = [json.loads(line) for line in run_in(home, EXAMPLES[command], "--jsonl").stdout.splitlines()]
    assert rows == document["rows"]
    assert rows or command in EMPTY
    for row in rows:
        of_a_row.validate(row)
    cells = list(csv.DictReader(io.StringIO(run_in(home, EXAMPLES[command], "--csv", "--raw").stdout)))
    assert [{name: as_cell(value) for name, value in row.items()} for row in rows] == cells
    assert json.loads(run_in(home, f"rlpanel schema {spec.name}").stdout) == document_schema(spec)


def as_cell(value: object) -> str:
    """Return what CSV has for a value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def test_two_formats_are_an_error(home: Path) -> None:
    done = run_in(home, "rlpanel steps runs/exp1 --json --csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "give only one of --json and --csv" in done.stderr


def test_an_error_is_one_line_that_says_what_to_do(home: Path) -> None:
    done = run_in(home, "rlpanel steps runs/exp1 --columns reward_men")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "rlpanel: run 'exp1' has no column 'reward_men'; similar ones are reward_mean, reward_min, "
        "reward_max\n"
    )
    assert "nearest" in run_in(home, "rlpanel samples runs/exp1 --step 99").stderr


def test_rows_that_are_left_out_are_counted_on_stderr(home: Path) -> None:
    done = run_in(home, "rlpanel samples runs/exp1 --step 20 --limit 3 --jsonl")
    assert done.stdout.count("\n") == 3
    assert done.stderr == "rows 1 to 3 of 64; --limit 0 prints all\n"
    done = run_in(home, "rlpanel samples runs/exp1 --step 20 --limit 0 --jsonl")
    assert (done.stdout.count("\n"), done.stderr) == (64, "")


def test_nothing_is_cut_in_a_pipe(home: Path) -> None:
    done = run_in(home, "rlpanel samples runs/exp1 --step 20 --limit 1 --text")
    row = json.loads(run_in(home, "rlpanel samples runs/exp1 --step 20 --limit 1 --text --jsonl").stdout)
    assert " ".join(row["prompt"].split()) in done.stdout
    assert "…" not in done.stdout


def test_a_finding_prints_commands_that_show_its_samples(home: Path) -> None:
    printed = run_in(home, "rlpanel findings runs/exp1").stdout
    finding = json.loads(run_in(home, "rlpanel findings runs/exp1 --json").stdout)["rows"][0]
    commands = re.findall(r"^  \$ (.*)$", printed, re.MULTILINE)
    assert commands[0].startswith(f"rlpanel samples runs/exp1 --step {finding['worst']} --filter ")
    assert commands[1] == f"rlpanel sample runs/exp1 {finding['uid']}"
    for command in commands[:2]:
        done = run_in(home, command)
        assert done.returncode == 0, done.stderr
        assert "response" in done.stdout


def test_texts_of_samples_are_blocks(home: Path) -> None:
    done = run_in(home, "rlpanel samples runs/exp1 --step 20..21 --limit 3 --text", terminal=True)
    lines = done.stdout.splitlines()
    assert sum(line.startswith("── rollout_data_rank_0.jsonl:") for line in lines) == 3
    assert lines.count("  response:") == 3


def test_a_file_that_was_not_read_makes_the_exit_code_3(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "rollout_data_rank_1.jsonl.gz").write_bytes(b"\x1f\x8b\x08 this is no gzip file")
    done = run_in(tmp_path, "rlpanel steps run --json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["rows"]
    assert "not read: rollout_data_rank_1.jsonl.gz" in done.stderr


def test_a_link_is_the_address_that_the_board_reads(home: Path) -> None:
    from urllib.parse import urlsplit

    from rlpanel.board_url import read_query

    asked = (
        "rlpanel link runs/exp1 --step 20 --sample rollout_data_rank_0.jsonl:0 --token 3 --metric kl_k3 "
        "--filter 'reward < 0' --search 'a&b' --sort=-reward --url http://host:5006/"
    )
    address = run_in(home, asked).stdout.strip()
    assert address.startswith("http://host:5006/?")
    values, problems = read_query(urlsplit(address).query)
    assert problems == []
    assert values == {
        "run": "exp1", "step": 20, "uid": "rollout_data_rank_0.jsonl:0", "token": 3, "metric": "kl_k3",
        "filter": "reward < 0", "search": "a&b", "sort": "-reward", "follow": False,
    }  # fmt: skip
    below = run_in(home, "rlpanel link runs/exp1 --root .").stdout
    assert re.search(r"run=runs%2Fexp1\b", below)
    assert run_in(home, "rlpanel link runs/exp1 --root runs/exp2").returncode == 2


def test_formulas_in_texts_are_harmless_in_csv_unless_raw(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1, samples=1, response="=1+1")
    asked = f"rlpanel samples {run} --text --columns reward --csv"
    [row] = csv.DictReader(io.StringIO(run_in(tmp_path, asked).stdout))
    assert row["response"] == "'=1+1"
    [row] = csv.DictReader(io.StringIO(run_in(tmp_path, asked, "--raw").stdout))
    assert row["response"] == "=1+1"


def test_a_run_that_grows_is_read_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    before = json.loads(run_in(tmp_path, "rlpanel steps run --json").stdout)["total"]
    append(run / "rollout_data_rank_0.jsonl", line(2))
    after = json.loads(run_in(tmp_path, "rlpanel steps run --json").stdout)["total"]
    assert (before, after) == (1, 2)
