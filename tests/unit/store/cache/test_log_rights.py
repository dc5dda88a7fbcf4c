"""The index, the notes and the facts of a run get the rights of its logs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import rlpanel
from rlpanel.store.query.notes_beside_log import Notes
from tests.factories import append, line, write_run
from tests.limits import small_runtime

LOG = "rollout_data_rank_0.jsonl"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return write_run(tmp_path / "run")


def used(run: Path) -> set[tuple[str, int]]:
    """Open a run, check it and leave a note; return the kinds and modes of all files beside the log."""
    with rlpanel.open_run(run, follow=False, jobs=0, runtime=small_runtime(min_log_bytes=0)) as opened:
        assert len(opened.findings) >= 0
        Notes(opened.path).write(f"{LOG}:0", "odd", "")
    beside = [path for path in run.rglob("*") if path.name not in (LOG, "lock")]
    assert {"summary", "manifest", ".rlpanel", ".rlpanel-notes.jsonl"} <= {path.name for path in beside}
    return {("folder" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode)) for path in beside}


@pytest.mark.parametrize(
    ("log", "file", "folder"), [(0o600, 0o600, 0o700), (0o640, 0o640, 0o750), (0o644, 0o644, 0o755)]
)
def test_files_beside_a_log_have_its_rights(run: Path, log: int, file: int, folder: int) -> None:
    (run / LOG).chmod(log)
    assert used(run) == {("file", file), ("folder", folder)}


def test_files_that_are_wider_are_narrowed_when_they_are_written(run: Path) -> None:
    assert used(run) == {("file", 0o644), ("folder", 0o755)}
    (run / LOG).chmod(0o600)
    append(run / LOG, line(9))
    used(run)
    names = (".rlpanel-notes.jsonl", *(f".rlpanel/{name}" for name in ("manifest", "summary")))
    assert {stat.S_IMODE((run / name).stat().st_mode) for name in names} == {0o600}
    # The folder protects those that are not written again.
    assert stat.S_IMODE((run / ".rlpanel").stat().st_mode) == 0o700
