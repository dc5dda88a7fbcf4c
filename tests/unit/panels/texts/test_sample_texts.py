"""Texts of samples are read once for all pages, and never served for another line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import rlpanel
from rlpanel.api.run import Run
from rlpanel.panels.texts.sample_texts import read_texts, unread_bytes
from rlpanel.store.query.fetch_sample import fetch_texts
from rlpanel.store.snapshot.snapshot_cache import TextCache
from tests.factories import line, write_run

RANK0 = "rollout_data_rank_0.jsonl"


def opened(folder: Path) -> Run:
    return rlpanel.open_run(folder, follow=False)


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path, steps=1, samples=4))
    rows = np.arange(4)
    assert unread_bytes(run.index, run.snapshot, rows) == (tmp_path / RANK0).stat().st_size - 4
    logged = [json.loads(text)["response"] for text in (tmp_path / RANK0).read_text().splitlines()]
    first = read_texts(run.index, run.snapshot, rows)
    assert unread_bytes(run.index, run.snapshot, rows) == 0
    (tmp_path / RANK0).unlink()
    assert read_texts(run.index, run.snapshot, rows) == first
    assert [texts["response"] for texts in first] == logged


def test_each_row_of_several_files_has_its_own_texts_in_any_order(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path, steps=2, samples=4, ranks=2))
    rows = np.random.default_rng(0).permutation(run.snapshot.rows)
    read_texts(run.index, run.snapshot, rows[::3])
    expected = [fetch_texts(run.index, run.snapshot, row) for row in rows.tolist()]
    assert len({texts["response"] for texts in expected}) > 8
    assert read_texts(run.index, run.snapshot, rows) == expected


def test_another_line_in_the_same_place_is_another_text(tmp_path: Path) -> None:
    for answer in ("aaa", "bbb"):
        (tmp_path / RANK0).write_bytes(line(1, response=answer))
        run = opened(tmp_path)
        [texts] = read_texts(run.index, run.snapshot, np.arange(1))
        assert texts["response"] == answer


def test_a_line_that_is_gone_says_so_and_is_not_kept(tmp_path: Path) -> None:
    run = opened(write_run(tmp_path, steps=1, samples=1))
    (tmp_path / RANK0).write_bytes(b"")
    [texts] = read_texts(run.index, run.snapshot, np.arange(1))
    assert texts["prompt"].startswith("(")
    assert unread_bytes(run.index, run.snapshot, np.arange(1)) > 0


def test_no_more_than_the_bound_is_kept_the_newest_asked_for() -> None:
    kept = TextCache(10)
    for key in "abc":
        kept.put(key, {"prompt": "1234"})
        kept.get("a")
    assert [key in kept for key in "abc"] == [True, False, True]
    kept.put("a", {"prompt": "1"})
    kept.put("d", {"prompt": "12345"})
    assert [key in kept for key in "abcd"] == [True, False, True, True]


def test_a_text_beyond_the_bound_is_not_kept() -> None:
    kept = TextCache(10)
    kept.put("long", {"prompt": "12345", "response": "123456"})
    assert ("long" in kept, kept.get("long")) == (False, None)
