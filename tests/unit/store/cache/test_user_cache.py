"""The user's cache folder: private and owned by the user, with and without a home."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from rlpanel.errors import UnsafePath
from rlpanel.store.cache.cache_folder import cache_folders, open_cache


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    return folder / f"rlpanel-{os.geteuid()}"


def without_passwd(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)


def test_the_home_comes_first(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folders() == [tmp_path / ".cache" / "rlpanel", temporary]


def test_the_folder_that_was_named_comes_before_the_home(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "named"))
    assert cache_folders() == [tmp_path / "named" / "rlpanel", temporary]


@pytest.mark.parametrize("home", [None, "", "/nonexistent", "relative"])
def test_without_a_home_it_is_in_the_temporary_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    without_passwd(monkeypatch)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert cache_folders()[-1] == temporary
    assert all(os.access(folder.parent.parent, os.F_OK) for folder in cache_folders())


def test_a_link_to_a_larger_disk_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / ".cache").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_cache(cache_folders()[0], create=True) as opened:
        assert opened.path == tmp_path / "disk" / "rlpanel"


@pytest.mark.parametrize("umask", [0, 0o002, 0o077])
def test_it_is_private_whatever_the_umask(temporary: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        open_cache(temporary, create=True).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700


def test_it_is_not_made_to_be_read(temporary: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_cache(temporary)
    assert not temporary.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("create", [True, False])
def test_one_that_another_user_made_is_refused(temporary: Path, create: bool) -> None:
    temporary.mkdir()
    os.chown(temporary, 12345, 12345)
    with pytest.raises(UnsafePath, match="belongs to another user"):
        open_cache(temporary, create=create)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_home_of_another_user_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 12345, 12345)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folders() == [temporary]
