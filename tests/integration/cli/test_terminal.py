"""What a person sees on a terminal: it fits, has sparklines, and no text of a log controls the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.factories import write_run
from tests.integration.cli.command_line import PLAIN, run_in, shown_at_terminal
from tests.integration.forked import run_module, start_module

#: Escape sequences, a bell, a C1 control character, text in reverse order, a carriage return, markup of rich.
HOSTILE = (
    "a\x1b[31mred\x1b]0;title\x07 \x9b31m \u202eback\r over [bold]markup[/bold] [link=http://x]y[/link] \x00"
)
COMMANDS = [
    "runs .",
    "steps run --columns *",
    "samples run --text --columns *",
    "sample run {uid}",
    "sample run {uid} --tokens",
    "groups run",
    "prompts run --kind variable",
    "tokens run --least 1",
    "findings run",
    "check run",
    "contrast run 1 2",
    "compare run run",
    "search run markup",
    "notes run",
    "steps run --columns nothing",
    "samples run --filter nothing==1",
]
#: Commands that write files, to the terminal.
EXPORTS = ["export run --csv -", "export run --csv - --raw", "export run --jsonl /dev/stdout"]
#: Commands of which only a real terminal shows what arrives there.
MORE = [
    *("export run --html -", "check run --json", "index run", "index run --json", "link run --sample {uid}"),
    *("steps run --json", "samples run --csv --text", "sql run 'select * from samples'", "tag run {uid} a"),
    *("sql run 'select * from nosuch'", "export nosuch --csv -", "export run --parquet -"),
]
UID = "rollout_data_rank_0.jsonl:0"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose texts, labels, keys, groups and notes are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    fields = {
        "prompt": HOSTILE,
        "response": HOSTILE,
        "finish_reason": HOSTILE[:60],
        "group": HOSTILE[:40],
        "label\x1b[2J": HOSTILE[:50],
        "number\x1b[2J": 1.5,
    }
    write_run(folder / "run", steps=8, samples=16, **fields)
    path = folder / "run" / "rollout_data_rank_0.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        line["reward"] = float(number % 3)
        line["response_tokens"] = [f"{token}\x1b[31m\x9b" for token in line["response_tokens"]]
        line["truncated"] = 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run_in(folder, f"rlpanel note run {UID}", HOSTILE).returncode == 0
    return folder


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_text_of_a_log_controls_the_terminal(hostile: Path, command: str, terminal: bool) -> None:
    line = "rlpanel " + command.format(uid=UID)
    done = run_in(hostile, line, terminal=terminal)
    for text in (done.stdout, done.stderr):
        assert all(char.isprintable() or char == "\n" for char in text), repr(text)
    assert done.stdout or done.returncode == 2


@pytest.mark.parametrize(
    "command",
    [EXPORTS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in [*EXPORTS[1:], *MORE, *COMMANDS])],
)
def test_no_text_of_a_log_controls_a_real_terminal(hostile: Path, command: str) -> None:
    shown = shown_at_terminal(hostile, "rlpanel " + command.format(uid=UID))
    assert shown.strip()
    assert {char for char in shown if not char.isprintable()} == {"\n"}


@pytest.mark.slow
def test_an_export_into_a_pipe_is_exact(hostile: Path) -> None:
    done = run_module("rlpanel", "export", "run", "--jsonl", "-", cwd=hostile, env=PLAIN)
    assert HOSTILE in {json.loads(line)["response"] for line in done.stdout.splitlines()}
    done = run_module("rlpanel", "export", "run", "--csv", "-", cwd=hostile, env=PLAIN)
    assert HOSTILE in done.stdout


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_the_formats_for_programs_control_no_terminal_either(hostile: Path, form: str) -> None:
    done = run_in(hostile, "rlpanel samples run --text --columns *", f"--{form}", terminal=True)
    assert all(char.isprintable() or char == "\n" for char in done.stdout)
    if form != "csv":
        row = json.loads(done.stdout.splitlines()[0])
        assert (row["rows"][0] if form == "json" else row)["response"] == HOSTILE


def test_markup_of_rich_is_text(hostile: Path) -> None:
    done = run_in(hostile, "rlpanel sample run rollout_data_rank_0.jsonl:0", terminal=True)
    assert "[bold]markup[/bold] [link=http://x]y[/link]" in done.stdout
    done = run_in(hostile, "rlpanel search run markup --limit 1 --around 7", terminal=True)
    assert "[bold]" in done.stdout


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_a_table_fits_the_terminal_and_names_what_it_leaves_out(grpo_run: Path, columns: int) -> None:
    line = f"rlpanel samples {grpo_run} --step 20 --limit 4"
    done = run_in(grpo_run, line, terminal=True, columns=columns)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    heading = next(text for text in lines if text.startswith("uid"))
    left_out = re.search(r"not shown in this width: (.*)", " ".join(lines))
    assert ("kl_k3_mean" in heading) != (left_out is not None and "kl_k3_mean" in left_out.group(1))
    assert sum(text.startswith("rollout") for text in lines) == 4


def test_steps_have_sparklines_of_the_whole_run(grpo_run: Path) -> None:
    done = run_in(grpo_run, f"rlpanel steps {grpo_run} --last 3", terminal=True)
    trend = re.search(r"^reward_mean +([▁▂▃▄▅▆▇█]+)  (\S+) → (\S+)$", done.stdout, re.MULTILINE)
    assert trend
    assert len(trend.group(1)) == 32
    assert trend.group(1)[0] == "▁"
    assert trend.group(1)[-1] in "▆▇█"
    assert float(trend.group(2)) < float(trend.group(3))
    assert "▁" not in run_in(grpo_run, f"rlpanel steps {grpo_run} --last 3").stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is always full")
def test_a_full_disk_is_one_line_of_error(grpo_run: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_module("rlpanel", "steps", grpo_run, stdout=full)
    assert done.returncode == 2
    assert done.stderr == "rlpanel: the output cannot be written: No space left on device\n"


def test_a_reader_that_stops_early_is_no_error(grpo_run: Path) -> None:
    options = ("--limit", "0", "--jsonl")
    with start_module("rlpanel", "samples", grpo_run, *options, stdout=PIPE, stderr=PIPE) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        assert json.loads(started.stdout.readline())["step"] == 1
        started.stdout.close()
        assert started.stderr.read() == ""
    assert started.returncode in (0, 1)


def test_a_sample_shows_its_texts_whole(grpo_run: Path) -> None:
    uid = "rollout_data_rank_0.jsonl:0"
    done = run_in(grpo_run, f"rlpanel sample {grpo_run} {uid}", terminal=True, columns=40)
    row = json.loads(run_in(grpo_run, f"rlpanel sample {grpo_run} {uid} --jsonl").stdout)
    shown = " ".join(done.stdout.split())
    for text in (row["prompt"], row["response"]):
        assert " ".join(text.split()) in shown
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert "kl_k3_mean" in shown
    assert re.search(r"\d+ numbers that follow from these: --json", shown)
    assert all(name in run_in(grpo_run, f"rlpanel sample {grpo_run} {uid}").stdout for name in row["numbers"])
    cut = run_in(grpo_run, f"rlpanel sample {grpo_run} {uid} --chars 3").stdout
    assert f"response, cut from {len(row['response'])} characters" in cut
