"""Files that rlpanel writes never reach a victim through a planted link, pipe or folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rlpanel import RolloutWriter, open_run
from rlpanel.app.demo import ROLLOUTS, read_recording, write_recording
from rlpanel.app.run_export import export, export_rows
from rlpanel.errors import RLPanelError
from rlpanel.sources.slime_convert import convert
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes_beside_log import Notes
from tests.factories import append, line, write_run
from tests.integration.forked import run_module, start_parent
from tests.limits import SAVED, small_runtime
from tests.torch_dump import write_torch

#: Seconds after which a writer counts as hanging.
PATIENCE = 30
LOG = "rollout_data_rank_0.jsonl"
UID = "a.jsonl:0"
#: Another user; only root can give files to it.
STRANGER = 12345
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@dataclass
class Scene:
    """A run, a home and a victim's folder.

    ``said`` returns all messages that were logged or raised.
    """

    base: Path
    said: Callable[[], str]

    @property
    def run(self) -> Path:
        return self.base / "run"

    @property
    def victim(self) -> Path:
        return self.base / "victim"

    @property
    def out(self) -> Path:
        return self.base / "out"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Scene:
    """A scene in which every run is indexed, however small, with its own cache and temporary folder."""
    caplog.set_level(logging.WARNING)
    made = Scene(tmp_path, lambda: caplog.text)
    write_run(made.run, steps=2, samples=3)
    for name in ("home", "out", "temporary", "modules"):
        (tmp_path / name).mkdir()
    for name in ("keep", "lock", "manifest", "data-2024/kept", f"data-{'0' * 32}/7", "0.jsonl", "alerts"):
        path = made.victim / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the victim's {name}\n")
        path.chmod(0o640)
    write_torch(tmp_path / "slime" / "rollout_data" / "0.pt", {"samples": [{"prompt": "p"}]})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return made


def tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything below a folder: type, permissions, owner, time and content of each name."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        key = str(path.relative_to(folder))
        found[key] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


@contextmanager
def untouched(*folders: Path) -> Iterator[None]:
    """Check that nothing in these folders changes, and that nothing hangs."""

    def hangs(number: int, frame: object) -> None:
        raise TimeoutError(f"it hangs for {PATIENCE} s")

    before = [tree(folder) for folder in folders]
    handler = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    assert [tree(folder) for folder in folders] == before


# -- writers -----------------------------------------------------------------------------------------


def look(run: Path) -> RunIndex:
    found = RunIndex(run, "run", limits=SAVED)
    read_on(found)
    return found


def read_on(found: RunIndex) -> None:
    found.rescan()
    while found.read():
        pass


def nothing(scene: Scene) -> None:
    pass


def save_index(scene: Scene, _: None) -> None:
    look(scene.run).save(last=True)
    assert look(scene.run).bytes_read == 0, "the index is not kept anywhere"


def save_no_index(scene: Scene, _: None) -> None:
    """The folder for the index is gone."""
    look(scene.run).save(last=True)
    assert look(scene.run).snapshot.samples == 6
    assert_one_line(scene.said(), "temporary/rlpanel-")


def begin_index(scene: Scene) -> RunIndex:
    """One save is done, and there is new data to save."""
    found = look(scene.run)
    found.save()
    append(scene.run / LOG, line(9))
    read_on(found)
    return found


def go_on_with_index(scene: Scene, found: RunIndex) -> None:
    found.save(last=True)
    if not scene.run.is_symlink():
        assert look(scene.run).snapshot.samples == 7


def in_the_way(scene: Scene) -> None:
    """The files are written to the cache instead."""
    (scene.run / ".rlpanel").write_text("in the way")
    (scene.run / ".rlpanel-notes.jsonl").mkdir()


def no_home(scene: Scene) -> None:
    in_the_way(scene)
    (scene.base / "home").rmdir()
    (scene.base / "home").write_text("in the way")


def leave_note(scene: Scene, _: None) -> None:
    Notes(scene.run).write(UID, "kept", "")
    assert Notes(scene.run).of(UID).tag == "kept"


def leave_no_note(scene: Scene, _: None) -> None:
    with pytest.raises(OSError, match="temporary/rlpanel-"):
        Notes(scene.run).write(UID, "kept", "")


def begin_notes(scene: Scene) -> Notes:
    notes = Notes(scene.run)
    notes.write(UID, "before", "")
    return notes


def go_on_with_notes(scene: Scene, notes: Notes) -> None:
    notes.write(UID, "kept", "")
    assert notes.of(UID).tag == "kept"


def write_report(scene: Scene, _: None) -> None:
    report = scene.out / "report.html"
    try:
        assert export(scene.run, report) == report.stat().st_size
    except RLPanelError as error:
        assert_one_line(str(error), "report.html")


def write_rows(scene: Scene, _: None) -> None:
    rows = scene.out / "rows.csv"
    try:
        assert export_rows(scene.run, rows, "CSV") == rows.stat().st_size
    except RLPanelError as error:
        assert_one_line(str(error), "rows.csv")


def begin_recording(scene: Scene) -> RolloutWriter:
    return RolloutWriter(scene.run, rank=7)


def record_rows(scene: Scene, writer: RolloutWriter) -> None:
    with writer:
        writer.write(step=3, prompt="p")
        assert writer.flush(PATIENCE)
        assert writer.written == 1, "the row is lost"
    with open_run(scene.run, follow=False, runtime=small_runtime(min_log_bytes=0)) as run:
        assert run.stats().rows == 7


def record_scalars(scene: Scene, writer: RolloutWriter) -> None:
    with writer:
        writer.scalars(1, {"loss": 1.0})
        assert writer.flush(PATIENCE)
        if writer.failed:
            assert_one_line(scene.said(), "scalars.jsonl")


def record_constants(scene: Scene, writer: RolloutWriter) -> None:
    with writer:
        writer.constants(beta=0.5)
    path = scene.run / "run.json"
    if path.is_symlink() or not path.is_file() or path.lstat().st_uid == STRANGER:
        assert_one_line(scene.said(), "run.json")
    else:
        assert json.loads(path.read_text()) == {"beta": 0.5}


def record_elsewhere(scene: Scene, writer: RolloutWriter) -> None:
    """Rows of an evaluation go to a subfolder of the run."""
    with writer.beside("eval") as other:
        other.write(step=3, prompt="p")
        assert other.flush(PATIENCE)
        assert other.written == 1, "the row is lost"
    assert_one_line(scene.said(), "eval")


def go_on_recording(scene: Scene, writer: RolloutWriter) -> None:
    """The folder is replaced between the first row and the others."""
    with writer:
        writer.write(step=4, prompt="p")
        writer.scalars(4, {"loss": 1.0})
        writer.constants(beta=0.5)
        assert writer.flush(PATIENCE)
        assert writer.written == 2, "a row is lost"


def begin_rows(scene: Scene) -> RolloutWriter:
    writer = begin_recording(scene)
    writer.write(step=3, prompt="p")
    assert writer.flush(PATIENCE)
    return writer


def convert_to_out(scene: Scene, _: None) -> None:
    convert_dumps(scene, scene.out)


def convert_beside(scene: Scene, _: None) -> None:
    convert_dumps(scene, scene.base / "slime" / "rlpanel")


def convert_dumps(scene: Scene, out: Path) -> None:
    beside = out.name == "rlpanel"
    try:
        convert(scene.base / "slime", *([] if beside else [out]))
    except RLPanelError as error:
        assert_one_line(str(error), out.name)
    else:
        assert json.loads((out / "0.jsonl").read_text())["prompt"] == "p"


def unpack(scene: Scene, _: None) -> None:
    try:
        write_recording("ppo_couplets", scene.out)
    except RLPanelError as error:
        assert_one_line(str(error), ROLLOUTS)
    else:
        assert (scene.out / ROLLOUTS).read_bytes() == read_recording("ppo_couplets")[ROLLOUTS]


def assert_one_line(said: str, name: str) -> None:
    lines = [line for line in said.splitlines() if name in line]
    assert len(lines) == 1, said


# -- attacks -----------------------------------------------------------------------------------------


def link_to_file(path: Path, victim: Path) -> None:
    path.symlink_to(victim / "keep")


def link_to_folder(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def dangling_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim / "new")


def hard_link(path: Path, victim: Path) -> None:
    os.link(victim / "keep", path)


def pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def strangers_file(path: Path, victim: Path) -> None:
    shutil.copy2(victim / "keep", path)
    os.chown(path, STRANGER, STRANGER)


def strangers_folder(path: Path, victim: Path) -> None:
    shutil.copytree(victim, path)
    for below in (path, *path.rglob("*")):
        os.chown(below, STRANGER, STRANGER)


def moved_folder(path: Path, victim: Path) -> None:
    """Replace a folder by one of the victim, as anyone who can rename its parents could."""
    shutil.copytree(victim, path)


#: Attacks after which the path itself belongs to the victim.
VICTIMS = (strangers_file, strangers_folder, moved_folder)
ON_FILES = [link_to_file, link_to_folder, dangling_link, hard_link, pipe]
ON_FOLDERS = [link_to_folder, dangling_link, pipe, link_to_file]
ON_INDEXES = [*ON_FOLDERS, moved_folder]
if IS_ROOT:
    ON_FILES.append(strangers_file)
    ON_FOLDERS.append(strangers_folder)
    ON_INDEXES.append(strangers_folder)
EXCHANGED = [link_to_folder]


class Writer(NamedTuple):
    """The writer's work before the attack and after it, and the attacked paths."""

    begin: Callable[[Scene], Any]
    go_on: Callable[[Scene, Any], None]
    aims: dict[str, list[Callable[[Path, Path], None]]]


WRITERS = {
    "index": Writer(
        nothing,
        save_index,
        {
            "run/.rlpanel": ON_INDEXES,
            "run/.rlpanel/lock": ON_FILES,
            "run/.rlpanel/manifest": ON_FILES,
            "run/.rlpanel/manifest.new": ON_FILES,
            "run/.rlpanel/CACHEDIR.TAG": ON_FILES,
        },
    ),
    "index that is open": Writer(
        begin_index,
        go_on_with_index,
        {
            "run": EXCHANGED,
            "run/.rlpanel": ON_INDEXES,
            "run/.rlpanel/lock": ON_FILES,
            "run/.rlpanel/manifest": ON_FILES,
            "run/.rlpanel/data-*": ON_INDEXES,
            "run/.rlpanel/data-*/0": ON_FILES,
        },
    ),
    "index in the cache": Writer(in_the_way, save_index, {"home/rlpanel": ON_FOLDERS}),
    "index in the temporary folder": Writer(
        no_home, save_no_index, {f"temporary/rlpanel-{os.geteuid()}": ON_FOLDERS}
    ),
    "notes": Writer(nothing, leave_note, {"run/.rlpanel-notes.jsonl": ON_FILES}),
    "notes that are open": Writer(
        begin_notes, go_on_with_notes, {"run": EXCHANGED, "run/.rlpanel-notes.jsonl": ON_FILES}
    ),
    "notes in the cache": Writer(
        in_the_way, leave_note, {"home/rlpanel": ON_FOLDERS, "home/rlpanel/notes": ON_FOLDERS}
    ),
    "notes in the temporary folder": Writer(
        no_home, leave_no_note, {f"temporary/rlpanel-{os.geteuid()}": ON_FOLDERS}
    ),
    "export": Writer(nothing, write_report, {"out/report.html": ON_FILES}),
    "export rows": Writer(nothing, write_rows, {"out/rows.csv": ON_FILES}),
    "rollouts": Writer(begin_recording, record_rows, {"run/rollout_data_rank_7.jsonl": ON_FILES}),
    "rollouts of an evaluation": Writer(begin_recording, record_elsewhere, {"run/eval": ON_FOLDERS}),
    "scalars": Writer(begin_recording, record_scalars, {"run/scalars.jsonl": ON_FILES}),
    "constants": Writer(
        begin_recording,
        record_constants,
        {"run/run.json": ON_FILES, f"run/.run.json.{os.getpid()}": ON_FILES},
    ),
    "recorder that is open": Writer(begin_rows, go_on_recording, {"run": EXCHANGED}),
    "convert": Writer(nothing, convert_to_out, {"out/0.jsonl": ON_FILES, "out/0.new": ON_FILES}),
    "convert without a target": Writer(
        nothing, convert_beside, {"slime/rlpanel": ON_FOLDERS, "slime/rlpanel/0.jsonl": ON_FILES}
    ),
    "demo": Writer(nothing, unpack, {f"out/{ROLLOUTS}": ON_FILES}),
}

CASES = [
    pytest.param(writer, aim, attack, id=f"{name}-{aim.split('.json.')[0]}-{attack.__name__}")
    for name, writer in WRITERS.items()
    for aim, attacks in writer.aims.items()
    for attack in attacks
]


@pytest.mark.parametrize(("writer", "aim", "attack"), CASES)
def test_a_writer_leaves_the_victim_alone_and_works_or_says_why_not(
    scene: Scene, writer: Writer, aim: str, attack: Callable[[Path, Path], None]
) -> None:
    begun = writer.begin(scene)
    path = next(scene.base.glob(aim), scene.base / aim)
    if path.exists():
        path.rename(scene.base / "aside")
    path.parent.mkdir(parents=True, exist_ok=True)
    attack(path, scene.victim)
    with untouched(scene.victim, *([path] if attack in VICTIMS else [])):
        writer.go_on(scene, begun)


needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can give a folder to another user")


@needs_root
@pytest.mark.parametrize("writer", [save_index, leave_note])
def test_in_another_users_run_nothing_is_written(scene: Scene, writer: Callable[[Scene, None], None]) -> None:
    for path in (scene.run, *scene.run.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    with untouched(scene.run):
        writer(scene, None)
    assert scene.said() == "", "another user's run is nothing to warn of"
    assert any(path.is_file() for path in (scene.base / "home").rglob("*"))


def test_a_link_shows_no_other_files_notes_and_is_no_pipe_to_wait_at(scene: Scene) -> None:
    secret = scene.victim / "notes.jsonl"
    secret.write_text(json.dumps({"uid": UID, "tag": "secret"}) + "\n")
    (scene.run / ".rlpanel-notes.jsonl").symlink_to(secret)
    assert Notes(scene.run).of(UID).tag == ""
    (scene.run / ".rlpanel-notes.jsonl").unlink()
    os.mkfifo(scene.run / ".rlpanel-notes.jsonl")
    with untouched(scene.victim):
        assert Notes(scene.run).of(UID).tag == ""


@needs_root
def test_notes_that_another_user_left_are_read(scene: Scene) -> None:
    path = scene.run / ".rlpanel-notes.jsonl"
    path.write_text(json.dumps({"uid": UID, "tag": "theirs", "time": 1.0}) + "\n")
    os.chown(path, STRANGER, STRANGER)
    notes = Notes(scene.run)
    assert notes.of(UID).tag == "theirs"
    with untouched(path):
        notes.write(UID, "ours", "")
    assert notes.of(UID).tag == "ours"


def test_the_command_leaves_a_linked_folder_alone(scene: Scene) -> None:
    """A run that is large enough for an index, with the command that a user runs."""
    write_run(scene.run, steps=1, samples=1, response="x" * (5 << 20), file_name="rollout_data_rank_1.jsonl")
    (scene.run / ".rlpanel").symlink_to(scene.victim)
    start_parent()  # its imports are no part of the command's time
    with untouched(scene.victim):
        done = run_module("rlpanel", "index", scene.run)
    assert done.returncode == 0
    assert done.stderr.count("is a link") == 1
    assert list((scene.base / "home").glob("rlpanel/*/manifest"))


@pytest.mark.parametrize("target", ["-", "/dev/stdout"])
def test_an_export_to_stdout_is_the_page_alone(scene: Scene, target: str) -> None:
    done = run_module("rlpanel", "export", scene.run, "--html", target)
    assert done.returncode == 0
    assert done.stdout.startswith("<!")
    assert done.stdout.rstrip().endswith("</html>")
    assert done.stderr.startswith(f"{target}: ")


def test_an_export_says_that_its_target_is_a_link(scene: Scene) -> None:
    report = scene.out / "report.html"
    report.symlink_to(scene.victim / "keep")
    start_parent()
    with untouched(scene.victim):
        done = run_module("rlpanel", "export", scene.run, "--html", report)
    assert (done.returncode, done.stderr) == (2, f"rlpanel: {report} is a link; name the file itself\n")
