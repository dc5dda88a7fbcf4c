"""The location of an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.safe_files import MARKER
from rlpanel.store.cache.cache_folder import lock_cache_folder

DATA = f"data-{'0' * 32}"


def test_a_folder_that_is_away_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    held = lock_cache_folder(tmp_path / "disk" / "run")
    assert held is not None
    held.release()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def old_index(run: Path, *further: str) -> Path:
    """An index's folder as 0.1.0 left it, without a marker."""
    folder = run / ".rlpanel"
    for name in ("lock", "manifest", "alerts", f"{DATA}/0", f"{DATA}/1", *further):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_an_index_of_an_older_version_is_taken_over(run: Path) -> None:
    folder = old_index(run)
    held = lock_cache_folder(run)
    assert held is not None
    assert held.folder.path == folder
    held.folder.remove_folder(DATA)
    held.release()
    assert sorted(path.name for path in folder.iterdir()) == [MARKER, "alerts", "lock", "manifest"]


def test_its_columns_are_only_deleted_if_they_are_ours(run: Path) -> None:
    folder = old_index(run, f"{DATA}/thesis.tex")
    held = lock_cache_folder(run)
    assert held is not None
    with pytest.raises(OSError, match="not empty"):
        held.folder.remove_folder(DATA)
    held.release()
    assert len(list((folder / DATA).iterdir())) == 3


@pytest.mark.parametrize("further", ["thesis.tex", "data-2024/kept"])
def test_a_folder_with_other_files_is_no_index(
    run: Path, caplog: pytest.LogCaptureFixture, further: str
) -> None:
    old_index(run, further)
    held = lock_cache_folder(run)
    assert held is not None
    assert held.folder.path.is_relative_to(run.parent / "home")
    held.release()
    assert caplog.messages == [
        f"{run}/.rlpanel holds files that rlpanel did not write: rlpanel writes nothing there"
    ]


def test_a_second_lock_is_not_given_and_does_not_go_elsewhere(run: Path) -> None:
    held = lock_cache_folder(run)
    assert held is not None
    assert lock_cache_folder(run) is None
    held.release()
    again = lock_cache_folder(run)
    assert again is not None
    again.release()
