"""The location of an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.safe_files import MARKER
from rlpanel.store.cache.cache_folder import lock_cache_folder


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


@pytest.mark.parametrize("name", ["thesis.tex", "manifest", "data-2024/kept"])
def test_a_folder_with_other_files_is_not_an_index(
    run: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    file = run / ".rlpanel" / name
    file.parent.mkdir(parents=True)
    file.touch()
    held = lock_cache_folder(run)
    assert held is not None
    assert held.folder.path.is_relative_to(run.parent / "home")
    held.release()
    assert caplog.messages == [
        f"{run}/.rlpanel holds files that rlpanel did not write: rlpanel writes nothing there"
    ]


def test_a_folder_whose_marker_was_not_finished_is_ours(run: Path) -> None:
    folder = run / ".rlpanel"
    folder.mkdir()
    (folder / f".{MARKER}.0a1b").touch()
    held = lock_cache_folder(run)
    assert held is not None
    assert held.folder.path == folder
    held.release()
    assert (folder / MARKER).exists()


def test_a_second_lock_is_not_given_and_does_not_go_elsewhere(run: Path) -> None:
    held = lock_cache_folder(run)
    assert held is not None
    assert lock_cache_folder(run) is None
    held.release()
    again = lock_cache_folder(run)
    assert again is not None
    again.release()
