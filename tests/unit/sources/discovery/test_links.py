"""Links out of the root are listed; this user's own links are followed if the setting allows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import RunNotFound
from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.discovery.folder_walk import target_of
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run

RANK0 = "rollout_data_rank_0.jsonl"
SAID = "links are not followed; start with --follow-links"
FOLLOW = Reading(follow_links=True, cache=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a run of its own and a link to a run elsewhere."""
    write_run(tmp_path / "scratch" / "exp7", steps=2, samples=2)
    write_run(tmp_path / "root" / "own", steps=1, samples=2)
    (tmp_path / "root" / "exp7").symlink_to(tmp_path / "scratch" / "exp7")
    return tmp_path / "root"


def runs(root: Path, reading: Reading = FOLLOW) -> list[str]:
    return sorted(info.name for info in Directory(root, reading).runs())


def left_out(root: Path, reading: Reading = FOLLOW) -> list[tuple[str, str]]:
    directory = Directory(root, reading)
    directory.runs()
    return [(one.file, one.reason) for one in directory.left_out]


# -- not asked for -----------------------------------------------------------------------------------


def test_a_link_is_named_with_what_to_do(root: Path, tmp_path: Path) -> None:
    assert runs(root, Reading()) == ["own"]
    assert left_out(root, Reading()) == [(f"exp7 -> {tmp_path}/scratch/exp7", SAID)]


def test_links_that_stay_below_the_root_or_lead_nowhere_are_not_named(root: Path) -> None:
    (root / "exp7").unlink()
    (root / "latest").symlink_to("own")
    (root / "gone").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    (root / ".hidden").symlink_to("/")
    assert left_out(root, Reading()) == []


def test_a_root_of_links_says_so_in_place_of_runs(root: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "exp7").symlink_to(tmp_path / "scratch" / "exp7")
    directory = Directory(tmp_path / "links", Reading())
    assert directory.runs() == []
    (sight,) = diagnose(directory).seen
    assert (sight.name, sight.what) == (f"exp7 -> {tmp_path}/scratch/exp7", SAID)


def test_a_rank_that_is_a_link_out_of_the_root_makes_the_run_not_whole(root: Path, tmp_path: Path) -> None:
    link = root / "own" / "rollout_data_rank_1.jsonl"
    link.symlink_to(tmp_path / "scratch" / "exp7" / RANK0)
    index = RunIndex(root / "own", "own", Reading(cache=False), root)
    index.rescan()
    index.read()
    assert [(one.file.partition(" -> ")[0], one.reason) for one in index.snapshot.unread] == [
        (link.name, SAID)
    ]


# -- asked for ---------------------------------------------------------------------------------------


def test_a_linked_run_goes_by_its_link_and_lies_where_it_lies(root: Path, tmp_path: Path) -> None:
    found = {info.name: info for info in Directory(root, FOLLOW).runs()}
    assert sorted(found) == ["exp7", "own"]
    assert found["exp7"].path == tmp_path / "scratch" / "exp7"
    assert Directory(root, FOLLOW).run_path("exp7") == tmp_path / "scratch" / "exp7"
    assert left_out(root) == []


def test_runs_below_a_link_have_names_through_it(root: Path, tmp_path: Path) -> None:
    (root / "all").symlink_to(tmp_path / "scratch")
    (root / "exp7").unlink()
    assert runs(root) == ["all/exp7", "own"]
    assert Directory(root, FOLLOW).run_path("all/exp7") == tmp_path / "scratch" / "exp7"


def test_a_run_that_is_reached_twice_is_listed_once(root: Path, tmp_path: Path) -> None:
    (root / "again").symlink_to(tmp_path / "scratch" / "exp7")
    (root / "all").symlink_to(tmp_path / "scratch")
    (root / "own" / "self").symlink_to(root / "own")
    assert runs(root) == ["again", "own"]


def test_loops_end(root: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "exp7" / "up").symlink_to(scratch)
    (scratch / "back").symlink_to(root)
    (scratch / "round").symlink_to(scratch / "exp7")
    (root / "above").symlink_to(tmp_path)
    assert runs(root) == ["exp7", "own"]
    assert ("above -> " + str(tmp_path), "it leads to a parent folder") in left_out(root)


def test_the_environment_asks_for_it_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_FOLLOW_LINKS", "1")
    assert sorted(info.name for info in rlpanel.discover(root)) == ["exp7", "own"]


def test_the_only_run_of_a_root_may_be_a_link(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPANEL_FOLLOW_LINKS", "1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "exp7").symlink_to(tmp_path / "scratch" / "exp7")
    with rlpanel.open_run(links, follow=False) as run:
        assert (run.stats().rows, run.path) == (4, tmp_path / "scratch" / "exp7")


def test_a_linked_rank_is_read_and_followed(root: Path, tmp_path: Path) -> None:
    (root / "own" / "rollout_data_rank_1.jsonl").symlink_to(tmp_path / "scratch" / "exp7" / RANK0)
    index = RunIndex(root / "own", "own", FOLLOW, root)
    for samples in (6, 7):
        index.rescan()
        while index.read():
            pass
        assert (index.snapshot.samples, index.snapshot.unread) == (samples, ())
        append(tmp_path / "scratch" / "exp7" / RANK0, line(9))


# -- who may ask -------------------------------------------------------------------------------------


def test_a_link_of_somebody_else_is_not_followed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert runs(root) == ["own"]
    ((_, reason),) = left_out(root)
    assert reason == f"the link belongs to user {owner}; only your own links are followed"
    with pytest.raises(RunNotFound):
        Directory(root, FOLLOW).run_path("exp7")


@pytest.mark.parametrize(
    "name",
    [
        "exp7/..", "exp7/../exp7", "exp7/../../etc", "exp7/.", "exp7/", "/exp7", "exp7//", "./exp7", "exp7\0",
        "exp7/inner", "exp7/own", "exp7/rollout_data_rank_0.jsonl", "exp7/.rlpanel", "above", "exp7/back",
        "above/scratch/exp7", "exp7/alias",
    ],
)  # fmt: skip
def test_a_name_that_is_no_run_of_the_list_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    (root / "above").symlink_to(tmp_path)
    exp7 = tmp_path / "scratch" / "exp7"
    (exp7 / "inner").mkdir()
    write_run(exp7 / "deeper")
    (exp7 / "alias").symlink_to("deeper")
    (exp7 / "back").symlink_to(tmp_path)
    write_run(exp7 / ".rlpanel")
    with pytest.raises(RunNotFound):
        Directory(root, FOLLOW).run_path(name)


def test_a_link_through_a_link_of_somebody_else_is_not_followed(root: Path, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make links of other users")
    (tmp_path / "theirs").symlink_to(tmp_path / "scratch" / "exp7")
    os.lchown(tmp_path / "theirs", 4242, 4242)
    (root / "chain").symlink_to(tmp_path / "theirs")
    found = target_of(str(root / "chain"), str(root), follow=True)
    assert (found.path, "through a link of user 4242" in found.reason) == ("", True)
