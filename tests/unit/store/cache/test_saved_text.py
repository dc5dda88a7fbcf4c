"""Small files beside the saved columns of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.store.cache.cache_folder import open_writable_folders
from rlpanel.store.cache.run_cache import MAX_TEXT, read_saved_text, save_text
from rlpanel.store.index.run_index import RunIndex
from tests.factories import write_run
from tests.limits import SAVED


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose columns are saved in its folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    index = RunIndex(write_run(tmp_path / "run"), "run", limits=SAVED)
    index.rescan()
    while index.read():
        pass
    index.save(last=True)
    return tmp_path / "run"


def test_a_text_is_read_back(saved: Path) -> None:
    assert save_text(saved, "summary", "half \ufffd 月")
    assert read_saved_text(saved, "summary") == "half \ufffd 月"
    assert read_saved_text(saved, "other") == ""


def test_nothing_is_written_without_saved_columns(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert not save_text(run, "summary", "x")
    with next(open_writable_folders(run)):  # as for alerts: marked, but without columns
        assert not save_text(run, "summary", "x")


def test_a_link_is_neither_written_nor_read(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("secret")
    (saved / ".rlpanel" / "summary").unlink()
    (saved / ".rlpanel" / "summary").symlink_to(tmp_path / "other")
    assert read_saved_text(saved, "summary") == ""
    save_text(saved, "summary", "x")
    assert (tmp_path / "other").read_text() == "secret"


def test_a_changed_text_counts_as_missing(saved: Path) -> None:
    save_text(saved, "summary", '{"samples": 6000}')
    path = saved / ".rlpanel" / "summary"
    path.write_text(path.read_text().replace("6000", "9999"))
    assert read_saved_text(saved, "summary") == ""
    path.write_text('{"samples": 6000}')  # as an older version wrote it
    assert read_saved_text(saved, "summary") == ""


def test_a_file_that_is_too_long_is_ignored(saved: Path) -> None:
    assert not save_text(saved, "summary", "x" * (MAX_TEXT + 1))
    (saved / ".rlpanel" / "summary").write_text("x" * (MAX_TEXT + 1))
    assert read_saved_text(saved, "summary") == ""
