"""Tables that repeat rows of the table before, as ms-swift writes them: each sample counts once."""

from __future__ import annotations

import json
import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.settings import Reading
from rlpanel.sources.adapters.columnar import Columnar
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.records.detokenize import DetokenizingAdapter
from rlpanel.sources.records.record_types import repeats_rows
from rlpanel.sources.records.row_overlap import overlap
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, rewrite
from tests.limits import store_limits

NAME = "completions.jsonl"


def table(step: int, completions: str, **columns: Any) -> bytes:
    """A line as ms-swift writes it: one row per letter, whose reward is the letter's number."""
    document = {
        "step": [str(step)] * len(completions),
        "prompt": ["p"] * len(completions),
        "completion": list(completions),
        "accuracy": [float(ord(letter)) for letter in completions],
        "advantages": [0.5] * len(completions),
    } | columns
    return json.dumps(document).encode() + b"\n"


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def read(folder: Path) -> Snapshot:
    return look(RunIndex(folder, "run"))


def counted(found: Snapshot, step: int = 1) -> str:
    """The letters of the rows that count in a step, in the file's order."""
    rows = found.rows_of(step)
    rows = rows[np.lexsort([found.metadata("part")[rows], found.metadata("offset")[rows]])]
    return "".join(chr(int(reward)) for reward in found.number("reward")[rows])


# -- which rows count --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "letters"),
    [
        (["abcd", "abcd"], "abcd"),
        (["abcd", "abcd", "abcd"], "abcd"),
        (["abcd", "cdxy"], "abcdxy"),
        (["abcd", "cdxy", "xyvw"], "abcdxyvw"),
        (["ab", "abcd"], "abcd"),
        (["abcd", "bcdx"], "abcdx"),
        (["abcd", "wxyz"], "abcdwxyz"),
        (["aabb", "aabb"], "aabb"),
        (["aaaa"], "aaaa"),
        (["abab", "abxy"], "ababxy"),
        (["abcd", "xaby"], "abcdxaby"),
        (["abcd", "wxyz", "abcd"], "abcdwxyzabcd"),
        (["a", "a"], "a"),
    ],
)
def test_rows_that_begin_a_table_and_end_the_one_before_count_once(
    tmp_path: Path, tables: list[str], letters: str
) -> None:
    append(tmp_path / NAME, *(table(1, letters) for letters in tables))
    found = read(tmp_path)
    assert counted(found) == letters
    assert found.duplicates == sum(map(len, tables)) - len(letters)


def test_the_last_table_again_at_the_end_of_training_changes_no_number(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "abcd"), table(2, "efgh"), table(3, "ijkl"))
    index = RunIndex(tmp_path, "run")
    before = look(index)
    append(tmp_path / NAME, table(3, "ijkl"))
    after = look(index)
    assert (after.samples, after.duplicates) == (12, 4)
    assert after.steps.samples.tolist() == before.steps.samples.tolist()
    assert after.steps.mean("reward").tolist() == before.steps.mean("reward").tolist()


def test_the_same_samples_in_another_step_count_there(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "abcd"), table(2, "abcd"))
    found = read(tmp_path)
    assert [counted(found, step) for step in (1, 2)] == ["abcd", "abcd"]


@pytest.mark.parametrize("column", ["accuracy", "advantages", "prompt"])
def test_a_sample_that_differs_in_prompt_reward_or_advantage_is_another(tmp_path: Path, column: str) -> None:
    other = {"accuracy": [0.0, 1.0], "advantages": [0.25, 0.25], "prompt": ["q", "q"]}[column]
    append(tmp_path / NAME, table(1, "ab"), table(1, "ab", **{column: other}))
    assert read(tmp_path).all_samples == 4


def test_a_sample_whose_entropy_is_logged_later_is_the_same(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "ab", entropy=[0.1, 0.2]), table(1, "ab", entropy=[0.2, 0.3]))
    assert read(tmp_path).samples == 2


def test_equal_samples_of_two_files_count_twice(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "ab"))
    append(tmp_path / "other.jsonl", b"\n", table(1, "ab"))
    assert read(tmp_path).samples == 4


def test_lines_with_one_sample_each_may_be_equal(tmp_path: Path) -> None:
    row = b'{"gen_step": 1, "prompt": "p", "completion": "c", "reward": 0.5}\n'
    append(tmp_path / NAME, row, row, row)
    found = read(tmp_path)
    assert (found.samples, found.duplicates) == (3, 0)


def test_a_format_whose_tokens_are_decoded_keeps_its_rule() -> None:
    assert repeats_rows(DetokenizingAdapter(Columnar(), "tokenizer.json"))
    assert not repeats_rows(DetokenizingAdapter(Native(), "tokenizer.json"))


def test_every_state_of_a_queue_gives_what_went_through_it(tmp_path: Path) -> None:
    """The rule against the writer: a queue of limited length that is logged at any time."""
    chance = random.Random(7)
    queue: deque[str] = deque(maxlen=6)
    put = ""
    for at in range(40):
        new = "".join(chr(0x4E00 + 8 * at + each) for each in range(chance.randint(0, 6)))
        put += new
        queue.extend(new)
        if queue:
            append(tmp_path / NAME, table(1, "".join(queue)))
    assert counted(read(tmp_path)) == put


# -- however the file is read ------------------------------------------------------------------------

TABLES = [table(step, letters) for step in range(1, 9) for letters in ("abcd", "abcd", "cdxy")]


@pytest.mark.parametrize("range_bytes", [100, 400, 1 << 20])
def test_ranges_of_a_backlog_find_the_same(tmp_path: Path, range_bytes: int) -> None:
    append(tmp_path / NAME, *TABLES)
    found = look(
        RunIndex(tmp_path, "run", Reading(backlog_bytes=1), limits=store_limits(range_bytes=range_bytes))
    )
    assert [counted(found, step) for step in range(1, 9)] == ["abcdxy"] * 8


def test_lines_that_come_one_by_one_find_the_same(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    for each in TABLES:
        append(tmp_path / NAME, each)
        found = look(index)
    assert [counted(found, step) for step in range(1, 9)] == ["abcdxy"] * 8


def test_a_run_from_the_cache_finds_the_same_and_goes_on(tmp_path: Path) -> None:
    append(tmp_path / NAME, *TABLES)
    first = RunIndex(tmp_path, "run", Reading(cache=True), limits=store_limits(min_log_bytes=1))
    look(first)
    first.close()
    index = RunIndex(tmp_path, "run", Reading(cache=True), limits=store_limits(min_log_bytes=1))
    index.rescan()
    assert index.bytes_read == 0
    append(tmp_path / NAME, table(8, "xyvw"))
    found = look(index)
    assert index.bytes_read == len(table(8, "xyvw"))
    assert [counted(found, step) for step in (1, 8)] == ["abcdxy", "abcdxyvw"]


def test_a_file_that_is_replaced_starts_anew(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / NAME, table(1, "abcd"), table(1, "abcd"))
    look(index)
    rewrite(tmp_path / NAME, table(1, "abcd"), table(1, "cdx"))
    found = look(index)
    assert (counted(found), found.duplicates) == ("abcdx", 2)


def test_a_mapping_that_replaces_the_format_ends_its_rule(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    append(tmp_path / NAME, table(1, "abcd"), table(1, "abcd"))
    before = look(index).samples
    (tmp_path / "rlpanel.toml").write_text('[map]\nresponse = "completion"\n')
    mapped = look(index).samples
    (tmp_path / "rlpanel.toml").unlink()
    assert (before, mapped, look(index).samples) == (4, 8, 4)


# -- the longest common part -------------------------------------------------------------------------


def test_the_overlap_is_the_longest_one() -> None:
    chance = random.Random(3)
    for _ in range(500):
        before, after = ([chance.randint(0, 2) for _ in range(chance.randint(0, 8))] for _ in range(2))
        lengths = range(min(len(before), len(after)) + 1)
        longest = max(each for each in lengths if before[len(before) - each :] == after[:each])
        assert overlap(np.array(before), np.array(after)) == longest, (before, after)


def test_the_overlap_of_long_equal_tables_is_found_in_one_pass() -> None:
    same = np.zeros(50_000, np.uint64)
    other = same.copy()
    other[-1] = 1
    assert overlap(same, other) == 49_999
    assert overlap(other, same) == 0
