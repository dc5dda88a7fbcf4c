"""Every small file of a run may be anything: the run opens quickly, and says which file it ignores."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models

from rlpanel.safe_files import MARKER
from tests.factories import append, line, write_run
from tests.integration.forked import CHECKOUT, run_module
from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess
from tests.waiting import wait_until

ROWS = 16
#: Upper bounds of one opening; the megabytes are those of the whole process.
MAX_SECONDS, MAX_MEGABYTES = 2.0, 200
SECRET, NOBODY = "SECRET_NAME", 65534
_CHILD = "tests.integration.reliability.opening_child"


def tokenizer() -> str:
    return str(tokenizers.Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>")).to_str())


#: Every small file that is read when a run is opened, with a valid content; None for what rlpanel wrote.
FILES: dict[str, str | None] = {
    "rlpanel.toml": "[reward_weights]\na = 0.5\n",
    "run.json": '{"reward_weights": {"a": 0.5}}',
    "trainer_state.json": '{"log_history": [{"step": 1, "loss": 0.5}]}',
    "tokenizer.json": tokenizer(),
    ".rlpanel-notes.jsonl": '{"uid": "rollout_data_rank_0.jsonl:0", "tag": "odd", "time": 1}\n',
    ".rlpanel/manifest": None,
    f".rlpanel/{MARKER}": None,
    ".rlpanel/summary": None,
}
HUGE = "1" + "0" * 400


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


def device(path: Path) -> None:
    """Make a copy of /dev/zero, or a link to it where only root could make one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


def link(path: Path) -> None:
    secret = path.with_name("elsewhere")
    secret.write_text(f"{SECRET} = 1\n")
    path.symlink_to(secret)


def foreign(path: Path) -> None:
    path.write_text(FILES.get(path.name) or "")
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def deep(path: Path) -> None:
    path.write_text(("a = " if path.suffix == ".toml" else "") + "[" * 60_000)


def huge(path: Path) -> None:
    contents = {
        "rlpanel.toml": f"[reward_weights]\na = {HUGE}\n",
        "run.json": f'{{"reward_weights": {{"a": {HUGE}}}, "gamma": {HUGE}}}',
        "trainer_state.json": f'{{"log_history": [{{"step": {HUGE}, "loss": {HUGE}}}]}}',
        ".rlpanel-notes.jsonl": f'{{"uid": "a:{HUGE}", "tag": "x"}}\n'
        f'{{"uid": "a:0", "tag": "x", "time": {HUGE}}}\n',
    }
    path.write_text(contents.get(path.name, f'{{"samples": {HUGE}}}'))


#: What may be in the place of a file, as functions from its path.
KINDS: dict[str, Callable[[Path], object]] = {
    "absent": lambda path: None,
    "empty": Path.touch,
    "sparse": sparse,
    "pipe": os.mkfifo,
    "device": device,
    "link": link,
    "folder": Path.mkdir,
    "foreign": foreign,
    "deep": deep,
    "huge": huge,
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 1000),
}
#: Kinds that are never read, so that each is named; and those that are read but hold nothing valid.
NEVER_READ, NONSENSE = ("sparse", "pipe", "device", "link", "folder"), ("deep", "huge", "no text")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all of `FILES`."""
    folder = tmp_path_factory.mktemp("small") / "whole"
    write_run(folder, steps=4, samples=4)
    for name, content in FILES.items():
        if content is not None:
            (folder / name).write_text(content)
    (folder / "rlpanel.toml").write_text(f'tokenizer = "tokenizer.json"\n{FILES["rlpanel.toml"]}')
    openings(folder)
    assert [name for name in FILES if not (folder / name).exists()] == []
    return folder


def openings(*runs: Path) -> list[dict[str, Any]]:
    """Open runs in a child process, and return what each said."""
    return said_by(run_module(_CHILD, *runs, cwd=CHECKOUT, timeout=300))


def measured_openings(*runs: Path) -> list[dict[str, Any]]:
    """Open runs in a child process that has imported nothing else, so that its memory can be measured."""
    command = [sys.executable, "-m", _CHILD, *runs]
    return said_by(
        subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    )


def said_by(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(text) for text in done.stdout.splitlines()]


def planted(whole: Path, name: str, kind: str, folder: Path) -> Path:
    """Copy the run, with something else in the place of one file."""
    run = folder / f"{name.replace('/', '_')}-{kind}".replace(" ", "_")
    shutil.copytree(whole, run)
    (run / name).unlink()
    KINDS[kind](run / name)
    if name == "trainer_state.json" and kind != "absent":
        os.utime(run / name, (1, 1))  # a file that was written just now may be incomplete
    return run


def test_a_whole_run_says_nothing_and_uses_everything(whole: Path) -> None:
    (found,) = openings(whole)
    assert found["said"] == []
    assert [found[key] for key in ("rows", "listed", "notes", "summary")] == [ROWS, 1, 1, [ROWS, 4]]


def test_whatever_is_in_the_place_of_a_small_file_is_named_and_costs_little(
    whole: Path, tmp_path: Path
) -> None:
    cases = [(name, kind) for name in FILES for kind in KINDS]
    runs = [planted(whole, name, kind, tmp_path) for name, kind in cases]
    found = dict(zip(cases, measured_openings(*runs), strict=True))
    assert {case: (one["rows"], one["listed"]) for case, one in found.items()} == dict.fromkeys(
        cases, (ROWS, 1)
    )
    assert [case for case, one in found.items() if one["seconds"] > MAX_SECONDS] == []
    assert max(one["megabytes"] for one in found.values()) < MAX_MEGABYTES
    assert [case for case, one in found.items() if SECRET in json.dumps(one)] == []
    assert [case for case, one in found.items() if must_be_named(*case) and not is_named(case[0], one)] == []


def must_be_named(name: str, kind: str) -> bool:
    """Nonsense in rlpanel's own files costs nothing: their checksum is wrong, so they are computed again."""
    return kind in NEVER_READ or (kind in NONSENSE and not name.startswith(".rlpanel/"))


def is_named(name: str, found: dict[str, Any]) -> bool:
    named = ".rlpanel" if name.endswith(MARKER) else Path(name).name
    return any(named in said for said in found["said"])


def test_a_summary_that_was_changed_is_not_shown(whole: Path, tmp_path: Path) -> None:
    saved = Path(shutil.copytree(whole, tmp_path / "run")) / ".rlpanel" / "summary"
    assert '"samples": 16' in saved.read_text()
    saved.write_text(saved.read_text().replace('"samples": 16', '"samples": 99'))
    (found,) = openings(tmp_path / "run")
    assert found["summary"] == [0, -1]


PIPES = ("rlpanel.toml", "run.json", "trainer_state.json", "tokenizer.json", ".rlpanel-notes.jsonl")


def plant_pipes(folder: Path) -> Path:
    """Write a run whose small files are named pipes; ``rlpanel.toml`` is one, or names one."""
    write_run(folder / "pipes", steps=2, samples=4)
    for name in PIPES:
        os.mkfifo(folder / "pipes" / name)
    write_run(folder / "named", steps=2, samples=4)
    os.mkfifo(folder / "named" / "tokenizer.json")
    (folder / "named" / "rlpanel.toml").write_text('tokenizer = "tokenizer.json"\n')
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A normal run, ``good``."""
    write_run(tmp_path / "root" / "good", steps=2, samples=4)
    return tmp_path / "root"


def health(server: ServerProcess) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(server.url, "/health").body)
    return answer


def test_a_server_follows_the_other_runs_beside_pipes(root: Path) -> None:
    plant_pipes(root)
    with ServerProcess(root, "--watch", env={"RLPANEL_RESCAN_INTERVAL": "0.5"}) as server:
        wait_until(lambda: health(server)["samples"] == 24, message="all runs are read")
        assert ask(server.url, "/?run=pipes").status == 200
        os.mkfifo(root / "good" / "rlpanel.toml")  # while the run is followed
        append(root / "good" / "rollout_data_rank_0.jsonl", line(3))
        wait_until(lambda: health(server)["samples"] == 25, message="the new line is read")
        assert health(server)["well"]
        assert server.stop() == 0


@pytest.mark.parametrize(
    "command",
    ["index", *(pytest.param(name, marks=pytest.mark.slow) for name in ("check", "steps", "notes"))],
)
def test_a_command_names_the_pipes(tmp_path: Path, command: str) -> None:
    run = plant_pipes(tmp_path) / "pipes"
    done = rlpanel_command(command, str(run))
    assert done.returncode == 3, done.stdout + done.stderr
    for name in PIPES[:3]:
        assert f"not read: {name}: is not a regular file" in done.stderr


def test_the_list_of_runs_has_those_beside_pipes(tmp_path: Path) -> None:
    done = rlpanel_command("runs", str(plant_pipes(tmp_path)), "--json")
    assert sorted(row["run"] for row in json.loads(done.stdout)["rows"]) == ["named", "pipes"]


def rlpanel_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_module("rlpanel", *arguments, cwd=CHECKOUT, timeout=60)
