"""The command line: its output, its messages and its exit codes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rlpanel
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from tests.factories import append, line, sample, write_run
from tests.integration.cli.command_line import Done, run_in
from tests.integration.forked import Forked, run_module, start_module
from tests.integration.server_process import ServerProcess
from tests.waiting import wait_until

COMMAND = [sys.executable, "-c", "from rlpanel.cli import main; main()"]
#: No colours and wide lines, so that the output does not depend on the terminal.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}


def say(*arguments: str | Path, cwd: Path = Path()) -> Done:
    """Run the command within this process; a process of its own would import for seconds."""
    return run_in(cwd, "rlpanel", *map(str, arguments))


def say_alone(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a forked process of its own."""
    return run_module("rlpanel", *map(str, arguments), env=PLAIN, timeout=60)


def say_from_the_start(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own that starts Python."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, env=os.environ | PLAIN, timeout=60
    )


def test_it_says_its_version() -> None:
    assert say_from_the_start("--version").stdout == f"rlpanel {rlpanel.__version__}\n"


def test_help_names_every_command() -> None:
    shown = say_from_the_start("--help").stdout
    commands = ("demo", "serve", "index", "check", "export")
    assert [name for name in commands if not re.search(rf"\b{name}\b", shown)] == []


def test_index_counts_what_a_run_holds(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=3, ranks=2, samples=4)
    append(run / "rollout_data_rank_0.jsonl", b"{broken\n")
    found = json.loads(say("index", run, "--json").stdout)
    written = sum(path.stat().st_size for path in run.iterdir())
    assert {key: found[key] for key in ("rows", "bad_lines", "steps", "files", "bytes")} == {
        "rows": 24,
        "bad_lines": 1,
        "steps": 3,
        "files": 2,
        "bytes": written,
    }


def test_commands_count_an_episode_once_unless_rows_are_asked_for(tmp_path: Path) -> None:
    """verl writes the final score to each output of a session."""
    for session, (outputs, score) in enumerate([(3, 1.0), (1, 0.0)]):
        for turn in range(outputs):
            row = {"input": "q", "output": f"{session}{turn}", "score": score, "uid": f"q_{session}_{turn}"}
            append(tmp_path / "5.jsonl", json.dumps(row).encode() + b"\n")
    for options, by, mean, size in (([], "episodes", 0.5, 2), (["--by", "rows"], "rows", 0.75, 4)):
        steps, groups = (
            json.loads(say(command, tmp_path, "--step", "5", "--json", *options).stdout)
            for command in ("steps", "groups")
        )
        assert (steps["about"]["by"], groups["about"]["by"]) == (by, by)
        row, group = steps["rows"][0], groups["rows"][0]
        assert [row[key] for key in ("samples", "episodes", "reward_mean")] == [4, 2, mean]
        assert [group[key] for key in ("samples", "reward_mean")] == [size, mean]
    assert json.loads(say("index", tmp_path, "--json").stdout)["episodes"] == 2
    assert re.search(r"^episodes +2$", say("index", tmp_path).stdout, re.MULTILINE)
    alone = write_run(tmp_path / "alone", steps=1, samples=2)
    assert "episodes" not in say("index", alone).stdout


def test_index_says_what_reading_cost(grpo_run: Path) -> None:
    found = json.loads(say_from_the_start("index", grpo_run, "--json").stdout)
    assert 0 < found["cpu_seconds"] < 30
    assert 10e6 < found["peak_memory_bytes"] < 1e9


def test_the_memory_of_whoever_calls_is_not_counted(tmp_path: Path) -> None:
    held = bytearray(400 << 20)
    held[::4096] = b"x" * len(held[::4096])
    found = json.loads(say_from_the_start("index", write_run(tmp_path / "run"), "--json").stdout)
    assert 10e6 < found["peak_memory_bytes"] < len(held)


def test_index_notes_a_writer_that_is_newer_than_tested_and_reads_its_log(tmp_path: Path) -> None:
    steps = [
        {"step_id": 1, "source": "user", "message": "p"},
        {"step_id": 2, "source": "agent", "message": "r"},
    ]
    trajectory = {"schema_version": "ATIF-v1.9", "agent": {"name": "a", "version": "1"}, "steps": steps}
    (tmp_path / "trajectory.json").write_text(json.dumps(trajectory))
    done = say("index", tmp_path, "--json")
    sentence = "written by ATIF 1.9; the newest tested version is 1.8"
    assert json.loads(done.stdout)["newer_writers"] == [sentence]
    assert done.stderr == f"rlpanel: note: {sentence}; new fields may not be read\n"
    assert done.returncode == 0


def test_index_writes_a_table_for_a_person(tmp_path: Path) -> None:
    shown = say("index", write_run(tmp_path / "run", steps=300, samples=8)).stdout
    assert re.search(r"^rows +2,400$", shown, re.MULTILINE)


def test_a_program_reads_stdout_and_nothing_else_is_on_it(tmp_path: Path) -> None:
    done = say_alone("index", write_run(tmp_path / "run"), "--json")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def write_truncated_run(folder: Path, **fields: Any) -> Path:
    """A run in which all responses are truncated."""
    return write_run(folder, steps=8, samples=32, tokens=False, truncated=1, **fields)


@pytest.mark.parametrize(
    ("truncated", "options", "code"),
    [
        (1, [], 1),
        (1, ["--fail-on", "warning"], 1),
        (1, ["--fail-on", "never"], 0),
        (1, ["--json"], 1),
        (0, ["--fail-on", "warning"], 0),
    ],
)
def test_the_exit_code_of_check_tells_whether_a_finding_is_severe_enough(
    tmp_path: Path, truncated: int, options: list[str], code: int
) -> None:
    run = write_run(tmp_path / "run", steps=8, samples=32, tokens=False, truncated=truncated)
    assert say("check", run, *options).returncode == code


def test_a_warning_fails_a_check_only_if_asked_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run, steps=range(1, 11), samples=32, tokens=False, truncated=1)
    write_run(run, steps=(11, 12), samples=32, tokens=False, truncated=0)
    severities = [each["severity"] for each in json.loads(say("check", run, "--json").stdout)["findings"]]
    assert severities == ["warning"]
    codes = [say("check", run, "--fail-on", level).returncode for level in ("alarm", "warning")]
    assert codes == [0, 1]


def test_check_prints_sentence_evidence_and_advice(tmp_path: Path) -> None:
    shown = say_alone("check", write_truncated_run(tmp_path / "run")).stdout.splitlines()
    assert shown[:2] == ["run: 1 alarm in 8 complete steps", ""]
    assert shown[2:5] == [
        "ALARM  Truncated responses",
        "  From step 1 on, 100% of the responses are truncated by the length limit.",
        "  Steps 1–8: 100% on average; step 1 has the most, 32 of 32.",
    ]
    assert shown[5].startswith("  Check next: Read how the longest ones end")


def test_check_says_that_nothing_was_found(tmp_path: Path) -> None:
    done = say("check", write_run(tmp_path / "run", steps=8, samples=32, tokens=False))
    assert (done.stdout, done.stderr) == ("run: no findings in 8 complete steps\n", "")


def test_check_prints_one_json_object(tmp_path: Path) -> None:
    run = write_truncated_run(tmp_path / "run")
    done = say("check", run, "--json")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    found = json.loads(done.stdout)
    (finding,) = found.pop("findings")
    assert found == {
        "run": "run",
        "path": str(run),
        "split": "train",
        "steps": 8,
        "unread": [],
        "left_out": {},
    }
    assert (finding["rule"], finding["severity"], finding["onset"]) == ("truncated", "alarm", 1)
    assert (finding["filter"], finding["metric"]) == ("ended == 0", "truncated_share")


def test_commands_read_a_last_line_without_a_newline(tmp_path: Path) -> None:
    """The only line of the only file makes it a run."""
    append(tmp_path / "rollouts.jsonl", line(1, index=3).rstrip(b"\n"))
    shown = say("samples", tmp_path, "--text", "--jsonl")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [json.loads(row)["response"] for row in shown.stdout.splitlines()] == [
        sample(1, index=3)["response"]
    ]


@pytest.mark.parametrize("command", ["index", "steps", "samples", "check", "findings"])
def test_commands_name_what_is_missing_at_the_end_of_a_file(tmp_path: Path, command: str) -> None:
    run = write_run(tmp_path / "run", steps=8, samples=32, tokens=False)
    append(run / "rollout_data_rank_0.jsonl", line(9)[:70])
    (run / "rollout_data_rank_1.jsonl.gz").write_bytes(gzip.compress(line(8, rank=1) * 3)[:-20])
    append(run / "rollout_data_rank_2.jsonl", bytes(30) + line(8, rank=2))
    done = say(command, run)
    assert done.returncode == 3
    for expected in (
        "rollout_data_rank_0.jsonl: the last line is incomplete (70 bytes)",
        "rollout_data_rank_1.jsonl.gz: is cut off",
        "rollout_data_rank_2.jsonl: 30 zero bytes",
    ):
        assert expected in done.stderr


@pytest.mark.parametrize("level", ["alarm", "warning", "never"])
def test_check_names_a_rule_that_failed_and_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    def broken(context: RuleContext) -> Iterator[Finding]:
        raise ValueError("no such column")
        yield

    monkeypatch.setitem(RULES, "broken", Rule("broken", "Broken", broken, (), ""))
    run = write_run(tmp_path / "run", steps=8, samples=32, tokens=False)
    done = say("check", run, "--fail-on", level)
    assert done.returncode == 3
    assert "no findings" not in done.stdout
    assert "The rule broken (Broken) failed" in done.stdout
    assert "ValueError: no such column" in done.stdout
    assert "Traceback" not in done.stderr
    (finding,) = json.loads(say("check", run, "--json").stdout)["findings"]
    assert (finding["rule"], finding["subject"]) == ("rule_failed", "broken")
    cut_off = write_truncated_run(tmp_path / "cut_off")
    assert [say("check", cut_off, "--fail-on", each).returncode for each in ("alarm", "never")] == [1, 3]


def test_check_of_a_split_checks_its_samples_only(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=8, samples=32, tokens=False)
    write_truncated_run(run, file_name="eval.jsonl", split="eval")
    assert [say("check", run, *options).returncode for options in ([], ["--split", "eval"])] == [0, 1]
    done = say("check", run, "--split", "test")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_label_in_a_finding_cannot_act_on_the_terminal(tmp_path: Path, encoding: str) -> None:
    run, evil = tmp_path / "run", "\x1b[31m\r\x07月\u202e"
    run.mkdir()
    rows = [
        line(
            step,
            index=index,
            tokens=False,
            lang=(evil, "en")[index % 2],
            truncated=step > 8 and index % 2 == 0,
        )
        for step in range(1, 21)
        for index in range(64)
    ]
    append(run / "rollout_data_rank_0.jsonl", *rows)
    done = subprocess.run(
        [*COMMAND, "check", str(run)],
        capture_output=True, env=os.environ | PLAIN | {"PYTHONIOENCODING": encoding}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    shown = done.stdout.decode(encoding)
    assert "lang = " in shown
    assert all(each.isprintable() for each in shown.splitlines())


def test_export_writes_the_page_that_it_names(tmp_path: Path) -> None:
    run, page = write_run(tmp_path / "run", steps=3), tmp_path / "page.html"
    done = say_alone("export", run, "--html", page, "--step", "2", "--samples", "1")
    assert done.stdout == f"{page}: {page.stat().st_size / 1e6:.1f} MB\n"
    assert "<title>run · step 2 · rlpanel</title>" in page.read_text("utf-8")


def test_export_shows_the_split_that_was_asked_for(tmp_path: Path) -> None:
    run, page = write_run(tmp_path / "run", steps=3), tmp_path / "page.html"
    append(run / "eval.jsonl", line(2, split="eval", reward=7.5))
    assert say("export", run, "--html", page, "--split", "eval").returncode == 0
    assert "<title>run · eval · step 2 · rlpanel</title>" in page.read_text("utf-8")
    done = say("export", run, "--html", page, "--split", "test")
    assert done.stderr == "rlpanel: no split 'test' in run; available: train, eval\n"


def test_export_of_a_step_that_is_not_there_writes_nothing(tmp_path: Path) -> None:
    run, page = write_run(tmp_path / "run", steps=3), tmp_path / "page.html"
    done = say("export", run, "--html", page, "--step", "7")
    assert (done.returncode, page.exists()) == (2, False)
    assert done.stderr == "rlpanel: step 7 is not in run 'run'; step 3 is the nearest\n"


@pytest.fixture
def formulas(tmp_path: Path) -> Path:
    """A run whose responses start like formulas."""
    return write_run(tmp_path / "run", steps=3, samples=4, response="=1+1")


@pytest.mark.parametrize(
    ("options", "response"), [([], "'=1+1"), (["--raw"], "=1+1")], ids=["defused", "raw"]
)
def test_export_writes_a_csv_of_all_steps(
    tmp_path: Path, formulas: Path, options: list[str], response: str
) -> None:
    table = tmp_path / "rows.csv"
    done = say("export", formulas, "--csv", table, *options)
    assert done.stdout == f"{table}: 0.0 MB\n"
    found = pd.read_csv(table)
    assert found.step.value_counts().to_dict() == {1: 4, 2: 4, 3: 4}
    assert set(found.response) == {response}


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("jsonl", lambda file: pd.read_json(file, lines=True, precise_float=True)),
        ("parquet", pd.read_parquet),
    ],
    ids=["jsonl", "parquet"],
)
def test_export_writes_the_samples_that_were_asked_for(
    tmp_path: Path, formulas: Path, kind: str, read: Callable[[Path], pd.DataFrame]
) -> None:
    table = tmp_path / "rows"
    asked = ["--step", "2", "--filter", "reward > 0", "--sort=-reward", "--samples", "2"]
    assert say("export", formulas, f"--{kind}", table, *asked).returncode == 0
    rewards = sorted((sample(2, index=index)["reward"] for index in range(4)), reverse=True)
    assert read(table).reward.tolist() == [reward for reward in rewards if reward > 0][:2]
    assert set(read(table).response) == {"=1+1"}


def test_export_writes_one_sample_as_a_row(tmp_path: Path, formulas: Path) -> None:
    uid, table = "rollout_data_rank_0.jsonl:0", tmp_path / "rows.csv"
    assert say("export", formulas, "--csv", table, "--sample", uid).returncode == 0
    assert pd.read_csv(table).uid.tolist() == [uid]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "exactly one of"),
        (["--csv", "a", "--html", "b"], "exactly one of"),
        (["--jsonl", "a", "--raw"], "--raw requires --csv"),
        (["--html", "a", "--samples", "10001"], "at most 10,000"),
        (["--csv", "a", "--step", "7"], "step 7 is not in run 'run'; step 3 is the nearest"),
        (["--csv", "a", "--filter", "no_such > 1"], "no_such"),
        (["--csv", "a", "--sample", "x:1"], "x:1"),
        (["--csv", "no/such/folder/a"], "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_export_that_cannot_be_made_says_why_and_writes_nothing(
    tmp_path: Path, formulas: Path, options: list[str], says: str
) -> None:
    done = say("export", formulas, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", "").split())
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_mistake_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = say("index", tmp_path / "nowhere")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "nowhere" in done.stderr


def test_a_name_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    said = say("index", tmp_path / "red\x1b[31m\r\a\nalert").stderr
    assert said.removesuffix("\n").isprintable()


def test_a_list_without_runs_says_what_was_seen_instead(tmp_path: Path) -> None:
    """A data set, and a hidden folder with rollouts: both are named, with the command for the latter."""
    (tmp_path / ".hidden").mkdir()
    for name in (".hidden/a_step_1.jsonl", "results.jsonl"):
        (tmp_path / name).write_text('{"question": "2 + 2?", "output": "4"}\n')
    write_run(tmp_path / ".hidden" / "run")
    done = say("runs", tmp_path, "--json")
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, [])
    assert ".hidden/: a hidden folder with rollouts; name it as the folder to open" in done.stderr
    assert "results.jsonl: no reward" in done.stderr
    assert done.stderr.splitlines()[-1] == f"rlpanel runs {tmp_path}/.hidden/"
    listed = json.loads(say("runs", tmp_path / ".hidden", "--json").stdout)["rows"]
    assert [row["run"] for row in listed] == ["run"]


def test_serving_a_file_says_what_to_give_instead(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run") / "rollout_data_rank_0.jsonl"
    done = say("serve", path)
    assert (done.returncode, done.stderr) == (
        2,
        f"rlpanel: {path} is a file; give the folder that holds it\n",
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which another server listens, at every address."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    """A free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as response:
            return response.status == 200
    except urllib.error.URLError:
        return False


def test_a_port_that_is_taken_is_one_line_with_a_remedy(tmp_path: Path, taken_port: int) -> None:
    done = say_alone("serve", tmp_path, "--port", taken_port)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"cannot listen on 127.0.0.1:{taken_port}" in done.stderr
    assert "--port" in done.stderr


def test_beyond_this_machine_a_token_is_asked_for(tmp_path: Path, taken_port: int) -> None:
    said = [
        say_alone("serve", tmp_path, "--host", "0.0.0.0", "--port", taken_port).stderr.splitlines()[0]
        for _ in range(2)
    ]
    tokens = [set(re.findall(r"/login#token=(\S+)", line)) for line in said]
    assert [len(found) for found in tokens] == [1, 1]  # both addresses contain the same token
    assert all(len(token) >= 32 for found in tokens for token in found)
    assert tokens[0] != tokens[1]


def test_a_board_open_to_everybody_is_warned_of(tmp_path: Path, taken_port: int) -> None:
    done = say_alone("serve", tmp_path, "--host", "0.0.0.0", "--port", taken_port, "--token", "")
    assert "WARNING: 0.0.0.0 is not a loopback address" in done.stderr.splitlines()[0]


def test_a_root_that_is_not_there_yet_is_said(tmp_path: Path, taken_port: int) -> None:
    done = say_alone("serve", tmp_path / "later", "--port", taken_port)
    assert "later does not exist yet" in done.stderr.splitlines()[0]


def test_a_recipient_of_alerts_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    done = say("serve", tmp_path, "--alert-url", "hooks.example.org")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "must begin with http:// or https://" in done.stderr


@pytest.mark.slow
def test_a_board_that_nobody_looks_at_alerts(tmp_path: Path, free_port: int) -> None:
    run = write_truncated_run(tmp_path / "runs" / "run")
    # At rest: while a run is live, two further steps must confirm what is found.
    os.utime(run / "rollout_data_rank_0.jsonl", (time.time() - 3000,) * 2)
    told = tmp_path / "told"
    alert = shlex.join(
        [sys.executable, "-c", f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())"]
    )
    options = ["--port", str(free_port), "--alert-command", alert, "--alert-severity", "alarm"]
    with start_module("rlpanel", "serve", str(tmp_path / "runs"), *options, env=PLAIN) as process:
        try:
            wait_until(lambda: told.exists() and told.stat().st_size, timeout=60, message="an alert")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
    found = json.loads(told.read_text())
    assert (found["rule"], found["severity"]) == ("truncated", "alarm")
    assert found["link"].startswith(f"http://127.0.0.1:{free_port}/?run=run&step=1&filter=")


@contextmanager
def demo(scratch: Path, port: int) -> Iterator[Forked | subprocess.Popen[str]]:
    """A demo in its own process, whose temporary files are in ``scratch``."""
    options = ("--port", str(port), "--no-show")
    environment = PLAIN | {"TMPDIR": str(scratch)}
    with start_module("rlpanel", "demo", *options, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_the_demo_serves_until_it_is_told_to_end_and_leaves_nothing(
    tmp_path: Path, free_port: int, ending: signal.Signals
) -> None:
    with demo(tmp_path, free_port) as process:
        wait_until(lambda: answers(free_port), timeout=60, message="the board's page")
        assert len(list(tmp_path.glob("rlpanel-demo-*/couplets-*/scalars.jsonl"))) == 2
        process.send_signal(ending)
        assert process.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_ended_before_it_serves_leaves_nothing(tmp_path: Path, free_port: int) -> None:
    with demo(tmp_path, free_port) as process:
        begun = "rlpanel-demo-*/couplets-grpo/scalars.jsonl"
        wait_until(lambda: list(tmp_path.glob(begun)), timeout=60, message="the growing run")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_a_served_folder_is_described_before_the_board_is_ready(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_truncated_run(tmp_path / "runs" / name)
    with ServerProcess(tmp_path / "runs") as server:
        address = f"http://127.0.0.1:{server.port}/"
        wait_until(lambda: any("Ctrl-C" in line for line in server.output), message="the address")
        said = list(server.output)
    found, starting, *agents, ready = said
    assert re.fullmatch(r"rlpanel: 2 runs, 2 files, [\d.]+ kB in .*/runs", found)
    assert starting == f"rlpanel: starting the board at {address}"
    assert ready == f"rlpanel: ready at {address} (Ctrl-C stops it)"
    with_mcp = [f"rlpanel: agents ask at {address}mcp (Model Context Protocol)"]
    assert agents == (with_mcp if find_spec("mcp") else [])
