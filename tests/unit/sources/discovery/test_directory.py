"""Runs are found by their rollout files; all other files are ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.sources.discovery.directory import Directory, discover
from tests.factories import append, line, write_run
from tests.unit.sources.readers.faults import public_folder, unreadable


def names(root: Path) -> list[str]:
    return sorted(info.name for info in discover(root))


def file_names(folder: Path) -> list[str]:
    return [found.name for found in Directory(folder).files(folder)]


def test_runs_lie_at_any_depth(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "group" / "b" / "c")
    assert names(tmp_path) == ["a", "group/b/c"]


def test_the_root_itself_may_be_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "alone")
    assert [(info.name, info.label) for info in discover(tmp_path / "alone")] == [(".", "alone")]


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old"]):
        os.utime(write_run(tmp_path / name) / "rollout_data_rank_0.jsonl", (0, 1000 - age))
    assert [info.name for info in discover(tmp_path)] == ["new", "old"]


def test_a_run_tells_its_files_and_bytes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", ranks=3)
    (info,) = discover(tmp_path)
    assert (info.files, info.bytes) == (3, sum(path.stat().st_size for path in folder.iterdir()))


def test_a_root_that_is_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="is not a folder"):
        discover(tmp_path / "nowhere")


def test_an_empty_root_has_no_runs(tmp_path: Path) -> None:
    assert discover(tmp_path) == []


def test_scalars_and_other_lines_beside_the_rollouts_are_no_rollouts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    (folder / "scalars.jsonl").write_text('{"step": 1, "loss": 0.5}\n' * 30)
    (folder / "notes.jsonl").write_text("nothing of ours\n")
    (folder / "config.json").write_text('{"step": 1, "prompt": "x"}\n')
    (folder / ".hidden.jsonl").write_bytes(line(1))
    assert file_names(folder) == ["rollout_data_rank_0.jsonl"]


def test_any_name_will_do_when_the_lines_are_rollouts(tmp_path: Path) -> None:
    write_run(tmp_path, file_name="whatever.jsonl")
    assert file_names(tmp_path) == ["whatever.jsonl"]


def test_bad_first_lines_do_not_hide_a_file(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", b"\n", b"{torn\n", line(1))
    assert file_names(tmp_path) == ["x.jsonl"]


def test_a_first_line_of_megabytes_tells_the_format_too(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1, essay="x" * (3 << 20)))
    assert file_names(tmp_path) == ["x.jsonl"]


def test_a_file_becomes_a_rollout_file_when_its_first_line_is_whole(tmp_path: Path) -> None:
    directory, path = Directory(tmp_path), tmp_path / "x.jsonl"
    seen = []
    for data in (b"", line(1)[:20], line(1)[20:]):
        append(path, data)
        seen.append(len(directory.files(tmp_path)))
    assert seen == [0, 0, 1]


def test_a_file_named_for_a_rank_is_one_even_before_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "rollout_data_rank_3.jsonl").touch()
    assert file_names(tmp_path) == ["rollout_data_rank_3.jsonl"]


def test_a_file_that_shrank_is_judged_anew(tmp_path: Path) -> None:
    directory, path = Directory(tmp_path), tmp_path / "x.jsonl"
    path.write_text('{"loss": 0.5}\n' * 1000)
    before = len(directory.files(tmp_path))
    path.write_bytes(line(1))
    assert (before, len(directory.files(tmp_path))) == (0, 1)


def test_hidden_folders_and_caches_are_passed_over(tmp_path: Path) -> None:
    for name in (".git", "__pycache__", "node_modules"):
        write_run(tmp_path / name)
    assert names(tmp_path) == []


def test_links_count_while_they_stay_below_the_root(tmp_path: Path) -> None:
    inside, outside = write_run(tmp_path / "root" / "store"), write_run(tmp_path / "outside")
    (tmp_path / "root" / "a").mkdir()
    (tmp_path / "root" / "a" / "in.jsonl").symlink_to(inside / "rollout_data_rank_0.jsonl")
    (tmp_path / "root" / "a" / "out.jsonl").symlink_to(outside / "rollout_data_rank_0.jsonl")
    (tmp_path / "root" / "a" / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "root" / "b").symlink_to(outside)
    assert [(info.name, info.files) for info in discover(tmp_path / "root")] == [("a", 1), ("store", 1)]


@pytest.mark.parametrize("name", ["..", "../outside", "/", "nothing", "a\0b", "x" * 5000])
def test_a_run_named_in_a_url_lies_below_the_root(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "outside")
    write_run(tmp_path / "root" / "a")
    with pytest.raises(RunNotFound):
        Directory(tmp_path / "root").run_path(name)


def test_a_run_is_found_by_its_name(tmp_path: Path) -> None:
    write_run(tmp_path / "group" / "123")
    assert Directory(tmp_path).run_path("group/123") == (tmp_path / "group" / "123").resolve()


def test_a_file_name_that_is_no_text_is_shown_with_escapes(tmp_path: Path) -> None:
    append(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")), line(1))
    assert file_names(tmp_path) == ["\\xff.jsonl"]


def test_a_folder_name_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    write_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert names(tmp_path) == []


def test_a_folder_that_may_not_be_read_hides_only_itself() -> None:
    with public_folder() as root:
        write_run(root / "a")
        write_run(root / "secret")
        with unreadable(root / "secret"):
            assert names(root) == ["a"]
