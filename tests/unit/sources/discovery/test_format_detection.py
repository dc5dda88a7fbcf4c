"""The first lines of a file tell its format; the name alone does only for the names of known writers."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.sources.discovery.directory import Directory
from tests.factories import append, line, write_run


def file_names(folder: Path) -> list[str]:
    return [found.name for found in Directory(folder).files(folder)]


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


#: First lines with the keys of a format and values that its adapter does not expect; a part of the reason.
UNEXPECTED = {
    "a score of texts": (
        '{"input_prompt": "a", "output_response": "b", "score": ["x"]}',
        "cannot be read as SkyRL: ValueError",
    ),
    "a reward of 400 digits": (
        '{"gen_step": [0], "prompt": ["p"], "completion": ["c"], "Format": [1%s], "advantages": [0.1]}'
        % ("0" * 400),
        "cannot be read as columnar: OverflowError",
    ),
    "traces that are numbers": ('{"task": 1, "traces": [1.5], "run": 2}', "cannot be read as prime-rl: "),
}


@pytest.mark.parametrize("name", UNEXPECTED)
def test_a_first_line_that_its_adapter_does_not_expect_is_a_bad_line(tmp_path: Path, name: str) -> None:
    first, reason = UNEXPECTED[name]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.jsonl").write_text(first + "\n")
    write_run(tmp_path / "good")
    assert {run.name for run in Directory(tmp_path).runs()} == {"bad", "good"}
    with rlpanel.open_run(tmp_path / "bad", follow=False) as run:
        bad = run.errors
    assert (bad["file"][0], bad["line"][0]) == ("x.jsonl", 1)
    assert bad["reason"][0].startswith(reason)


def test_an_integer_of_5000_digits_costs_no_line(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1), b'{"step": 1, "prompt": "p", "x": %b}\n' % (b"9" * 5000), line(1))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert (run.snapshot.samples, run.errors["line"].tolist()) == (3, [])
