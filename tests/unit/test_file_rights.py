"""Files derived from a log are not open to more users than the log."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rlpanel.regular_files import FileRights
from rlpanel.safe_files import SafeFolder


def made(path: Path, mode: int) -> os.stat_result:
    path.touch()
    path.chmod(mode)
    return path.stat()


@pytest.mark.parametrize(
    ("modes", "most"),
    [
        ([0o644], 0o755),
        ([0o600], 0o700),
        ([0o640], 0o750),
        ([0o664, 0o640], 0o750),
        ([0o644, 0o600], 0o700),
        ([0o604], 0o705),
        ([], 0o700),
    ],
)
def test_a_file_is_readable_for_those_who_may_read_every_log(
    tmp_path: Path, modes: list[int], most: int
) -> None:
    logs = [made(tmp_path / str(number), mode) for number, mode in enumerate(modes)]
    assert FileRights.of(logs).most == most


@pytest.mark.parametrize(("log", "file", "folder"), [(0o600, 0o600, 0o700), (0o640, 0o640, 0o750)])
def test_new_and_existing_files_get_the_rights(tmp_path: Path, log: int, file: int, folder: int) -> None:
    (tmp_path / "made").mkdir(mode=0o755)
    for name in ("appended", "replaced", "opened"):
        made(tmp_path / "made" / name, 0o664)
    with SafeFolder.open(tmp_path / "made") as opened:
        opened.rights = FileRights.of([made(tmp_path / "log", log)])
        opened.narrow()
        for name in ("appended", "new"):
            opened.append(name, b"x")
        for name in ("replaced", "new too"):
            opened.replace(name, b"x")
        os.close(opened.open_to_write("opened"))
        with opened.subfolder("inner", create=True) as inner:
            inner.append("file", b"x")
    files = [path for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert len(files) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {file}
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == folder
    assert stat.S_IMODE((tmp_path / "made" / "inner").stat().st_mode) == folder


def test_without_rights_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    made(tmp_path / "log", 0o664)
    with SafeFolder.open(tmp_path) as opened:
        opened.append("log", b"x")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o664


def test_another_group_does_not_get_the_rights_of_the_logs_group(tmp_path: Path) -> None:
    status = made(tmp_path / "file", 0o640)
    rights = FileRights(0o040, status.st_gid + 1)
    rights.narrow(status, str(tmp_path / "file"))
    now = (tmp_path / "file").stat()
    # Root can give the file to that group; others cannot, unless they are its members.
    assert (now.st_gid, stat.S_IMODE(now.st_mode)) in ((status.st_gid + 1, 0o640), (status.st_gid, 0o600))
