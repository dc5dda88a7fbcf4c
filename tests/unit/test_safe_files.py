"""Folders are opened without following links, and files in them are written only if that is safe."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rlpanel import safe_files
from rlpanel.errors import UnsafePath
from rlpanel.safe_files import MARKER, SafeFolder, replace_file


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "keep").write_text("kept")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture(params=["descriptors", "paths"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening files: relative to a folder's descriptor, and by paths as on Windows."""
    monkeypatch.setattr(safe_files, "_BY_DESCRIPTOR", request.param == "descriptors")
    return str(request.param)


def test_a_folder_is_made_with_all_on_its_way(tmp_path: Path, way: str) -> None:
    with SafeFolder.open(tmp_path / "a" / "b", create=True, mode=0o700) as made:
        made.append("log", b"one\n")
        made.append("log", b"two\n")
    assert (tmp_path / "a" / "b" / "log").read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_link_on_the_way_is_refused(tmp_path: Path, victim: Path, way: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafePath, match=r"link is a link$"):
        SafeFolder.open(tmp_path / "link" / "victim")


def test_a_link_in_a_path_that_a_person_typed_is_followed(tmp_path: Path, victim: Path, way: str) -> None:
    (tmp_path / "link").symlink_to(victim)
    with SafeFolder.named(tmp_path / "link") as found:
        assert found.path == victim
        assert found.read("keep", 100) == b"kept"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../victim/keep"])
def test_a_name_stays_in_its_folder(folder: Path, victim: Path, name: str) -> None:
    with SafeFolder.open(folder) as opened:
        for use in (
            partial(opened.read, most=100),
            opened.subfolder,
            opened.remove_folder,
            opened.open_to_write,
        ):
            with pytest.raises(UnsafePath, match="is not the name of a file"):
                use(name)
        with pytest.raises(UnsafePath, match="is not the name of a file"):
            opened.replace(name, b"new")


@pytest.mark.parametrize("target", ["keep", "new", "."])
def test_a_link_is_neither_read_nor_written(folder: Path, victim: Path, way: str, target: str) -> None:
    (folder / "file").symlink_to(victim / target)
    with SafeFolder.open(folder) as opened:
        for use in (
            partial(opened.read, most=100),
            opened.open_to_write,
            lambda name: opened.replace(name, b"new"),
        ):
            with pytest.raises(UnsafePath, match="file is a link"):
                use("file")
    assert [path.read_text() for path in victim.iterdir()] == ["kept"]


def test_a_pipe_does_not_hold_anything_up(folder: Path) -> None:
    os.mkfifo(folder / "file")
    with SafeFolder.open(folder) as opened:
        for use in (
            partial(opened.read, most=100),
            opened.open_to_write,
            lambda name: opened.replace(name, b"new"),
        ):
            with pytest.raises(UnsafePath, match="is not a regular file"):
                use("file")


def test_a_file_with_two_names_is_read_but_not_written(folder: Path, victim: Path) -> None:
    os.link(victim / "keep", folder / "file")
    with SafeFolder.open(folder) as opened:
        assert opened.read("file", 100) == b"kept"
        with pytest.raises(UnsafePath, match="hard link"):
            opened.append("file", b"more")
        opened.replace("file", b"new")  # gives the name to a new file
    assert (victim / "keep").read_text() == "kept"


def test_a_replaced_file_is_old_or_new_and_keeps_its_permissions(folder: Path, way: str) -> None:
    (folder / "page").write_text("old")
    (folder / "page").chmod(0o600)
    replace_file(folder / "page", b"new")
    assert (folder / "page").read_text() == "new"
    assert stat.S_IMODE((folder / "page").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["page"]


def test_a_file_is_replaced_by_parts_as_they_come(folder: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"one "
        assert (folder / "page").read_text() == "old", "half of it can be seen"
        yield b"two"

    (folder / "page").write_text("old")
    assert replace_file(folder / "page", parts()) == 7
    assert (folder / "page").read_bytes() == b"one two"


def test_what_fails_leaves_no_scratch_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    (folder / "page").write_text("old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(folder / "page", b"new")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("page", "old")]


def test_a_folder_that_is_exchanged_for_a_link_between_two_steps_changes_nothing(
    tmp_path: Path, folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.replace

    def exchange(*args: str, **rest: int) -> None:
        folder.rename(tmp_path / "aside")
        folder.symlink_to(victim)
        really(*args, **rest)

    monkeypatch.setattr(os, "replace", exchange)
    replace_file(folder / "keep", b"new")
    assert (victim / "keep").read_text() == "kept"
    assert (tmp_path / "aside" / "keep").read_text() == "new"


def test_a_file_that_was_removed_is_not_made_anew_unless_asked(folder: Path) -> None:
    with SafeFolder.open(folder) as opened, pytest.raises(FileNotFoundError):
        opened.append("log", b"line", create=False)


def test_many_who_make_a_file_at_once_lose_nothing(folder: Path) -> None:
    def write(number: int) -> None:
        with SafeFolder.open(folder) as opened:
            opened.append("log", b"%d\n" % number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, (folder / "log").read_text().split())) == list(range(16))


def test_an_error_names_the_whole_path(folder: Path) -> None:
    with SafeFolder.open(folder) as opened, pytest.raises(FileNotFoundError) as failed:
        opened.read("gone", 100)
    assert failed.value.filename == str(folder / "gone")


# -- deleting ----------------------------------------------------------------------------------------


def test_a_marked_folder_is_deleted(folder: Path, way: str) -> None:
    with SafeFolder.open(folder) as opened:
        with opened.subfolder("made", create=True) as made:
            made.mark()
            made.append("0", b"x")
        opened.remove_folder("made")
    assert list(folder.iterdir()) == []


def test_only_a_marked_folder_loses_files(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "file").touch()
    with SafeFolder.open(folder) as opened:
        with pytest.raises(OSError, match="not empty"):
            opened.remove_folder("data")
        with pytest.raises(UnsafePath, match="was not made by rlpanel"):
            opened.remove("data")
    assert (folder / "data" / "file").exists()


def test_another_programs_cache_folder_is_not_taken_for_ours(folder: Path) -> None:
    (folder / MARKER).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# by another program\n")
    with SafeFolder.open(folder) as opened:
        assert not opened.is_marked


def test_a_link_in_a_deleted_folder_goes_and_its_target_stays(folder: Path, victim: Path) -> None:
    (folder / "made").mkdir()
    with SafeFolder.open(folder) as opened:
        with opened.subfolder("made") as made:
            made.mark()
        (folder / "made" / "0").symlink_to(victim / "keep")
        opened.remove_folder("made")
    assert (victim / "keep").read_text() == "kept"
    assert not (folder / "made").exists()


# -- private folders ---------------------------------------------------------------------------------


def test_a_private_folder_is_taken_from_others_reach(folder: Path) -> None:
    folder.chmod(0o777)
    with SafeFolder.open(folder) as opened:
        opened.make_private()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
