"""With ``--follow-links``, links of other users and links that change later are not followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.unit.sources.readers.faults import public_folder
from tests.waiting import wait_until

FOLLOW = Reading(follow_links=True, cache=False, rescan_interval=0.1)
RANK0 = "rollout_data_rank_0.jsonl"

#: As root, becomes an ordinary user, creates a link, and prints the runs that are found.
_AS_USER = """
import json, os, sys
from pathlib import Path
from rlpanel.errors import RLPanelError
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory
root = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
(root / "mine").symlink_to(root.parent / "scratch" / "mine")
directory = Directory(root, Reading(follow_links=True))
runs = [info.name for info in directory.runs()]
paths = {}
for name in ("mine", "theirs", "mine/theirs", "mine/../theirs"):
    try:
        paths[name] = str(directory.run_path(name))
    except RLPanelError:
        paths[name] = ""
print(json.dumps({"runs": runs, "paths": paths, "out": [str(one) for one in directory.left_out]}))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which everyone may create links, and runs next to it."""
    with public_folder() as folder:
        write_run(folder / "scratch" / "mine", steps=1, samples=2)
        write_run(folder / "private", steps=1, samples=3)
        (folder / "root").mkdir()
        (folder / "root").chmod(0o777)
        yield folder


def test_an_ordinary_user_follows_own_links_only(shared: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make links of other users")
    root = shared / "root"
    (root / "theirs").symlink_to(shared / "private")
    (shared / "scratch" / "mine" / "theirs").symlink_to(shared / "private")
    done = subprocess.run(
        [sys.executable, "-c", _AS_USER, str(root)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["runs"] == ["mine"]
    assert found["paths"] == {
        "mine": str(shared / "scratch" / "mine"), "theirs": "", "mine/theirs": "", "mine/../theirs": "",
    }  # fmt: skip
    reason = "the link belongs to user 0; only your own links are followed"
    assert found["out"] == [
        f"mine/theirs -> {shared}/private: {reason}",
        f"theirs -> {shared}/private: {reason}",
    ] or found["out"] == [
        f"theirs -> {shared}/private: {reason}",
        f"mine/theirs -> {shared}/private: {reason}",
    ]


def test_a_link_that_is_exchanged_for_somebody_elses_is_refused_from_then_on(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shared / "root"
    (root / "mine").symlink_to(shared / "scratch" / "mine")
    directory = Directory(root, FOLLOW)
    assert [info.name for info in directory.runs()] == ["mine"]
    (root / "mine").unlink()
    (root / "mine").symlink_to(shared / "private")
    owner = os.getuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)  # the new link no longer belongs to this user
    assert directory.runs() == []
    with pytest.raises(RunNotFound):
        directory.run_path("mine")


def test_an_open_linked_run_stays_where_its_link_led(shared: Path) -> None:
    root = shared / "root"
    (root / "mine").symlink_to(shared / "scratch" / "mine")
    reader = Reader(FOLLOW)
    try:
        index = reader.open(Directory(root, FOLLOW).run_path("mine"), "mine")
        wait_until(lambda: index.snapshot.samples == 2, 30)
        (root / "mine").unlink()
        (root / "mine").symlink_to(shared / "private")
        append(shared / "scratch" / "mine" / RANK0, line(9))
        wait_until(lambda: index.snapshot.samples == 3, 30)
        assert index.path == shared / "scratch" / "mine"
    finally:
        reader.stop()


@pytest.mark.parametrize("follow", [False, True])
def test_a_run_whose_folder_becomes_a_link_is_read_no_further(shared: Path, follow: bool) -> None:
    """The owner of the run's folder could replace it by a link to a folder of the viewer."""
    run = write_run(shared / "root" / "run", steps=1, samples=2)
    index = RunIndex(run, "run", Reading(follow_links=follow, cache=False), shared / "root")
    index.rescan()
    index.read()
    run.rename(shared / "root" / "old")
    run.symlink_to(shared / "private")
    index.rescan()
    index.read()
    assert index.snapshot.samples == 2
    assert index.snapshot.problems == (
        "the path of the run's folder leads elsewhere now; its last state is shown",
    )


def test_a_file_that_becomes_a_link_is_not_read_before_the_next_listing(shared: Path) -> None:
    """An event reads a file immediately; the folder is only listed later."""
    run = write_run(shared / "root" / "run", steps=1, samples=2)
    index = RunIndex(run, "run", Reading(cache=False), shared / "root")
    index.rescan()
    index.read()
    (run / RANK0).unlink()
    (run / RANK0).symlink_to(shared / "private" / RANK0)
    index.read({str(run / RANK0)})
    assert index.snapshot.samples == 2
    assert index.snapshot.problems != ()


def test_serve_says_which_links_are_not_followed(shared: Path) -> None:
    write_run(shared / "root" / "own", steps=1, samples=2)
    (shared / "root" / "exp7").symlink_to(shared / "scratch" / "mine")
    with ServerProcess(shared / "root") as server:
        link = f"exp7 -> {shared}/scratch/mine"
        said = f"rlpanel: not shown: {link}: links are not followed; start with --follow-links"
        wait_until(lambda: said in server.output, 30, "the line on the terminal")
