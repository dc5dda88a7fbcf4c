"""A column whose numbers were logged as text, as verl does with what JSON lacks, is one column of numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.columns.row_builder import RowBuilder
from tests.factories import append


def columns(folder: Path, *values: Any, parts: int = 1) -> tuple[list[float] | None, list[str | None] | None]:
    """Read lines with these values of ``acc``, in several parts; return its numbers and its texts."""
    builder, file = RowBuilder(), JsonlFile(str(folder / "x.jsonl"), "x.jsonl", Native())
    numbers: list[float] = []
    texts: list[str | None] = []
    has_numbers = has_texts = False
    for part in np.array_split(np.array([*values, None], object)[:-1], parts):
        lines = (json.dumps({"step": 1, "prompt": "p", "acc": value}).encode() + b"\n" for value in part)
        append(folder / "x.jsonl", *lines)
        for chunk in file.poll(1 << 20):
            builder.add_chunk(0, chunk)
        rows = builder.flush()
        assert rows is not None
        has_numbers, has_texts = has_numbers or "acc" in rows.numbers, has_texts or "acc" in rows.labels
        numbers += list(rows.numbers.get("acc", [math.nan] * len(rows)))
        texts += rows.labels.get("acc", [None] * len(rows))
    return numbers if has_numbers else None, texts if has_texts else None


@pytest.mark.parametrize(
    ("values", "numbers", "texts"),
    [
        (["True", "3", "tensor(0.5)", "np.float64(0.5)", "None"], [1, 3, 0.5, 0.5, math.nan], None),
        (["3", True, "True", 0.5], [3, 1, 1, 0.5], None),
        (["True", "False", None], [1, 0, math.nan], None),
        (["tensor([0.5])", "tensor([1, 2])"], [0.5, math.nan], [None, "tensor([1, 2])"]),
        (["4", 1, "x+1"], [4, 1, math.nan], [None, None, "x+1"]),
        (["4", "5"], None, ["4", "5"]),
        (["True", "Unknown"], None, ["True", "Unknown"]),
        (["1_2", 1], [math.nan, 1], ["1_2", None]),
        ([2**53 + 1, 1], [math.nan, 1], [str(2**53 + 1), None]),
    ],
    ids=str,
)
def test_the_column_decides_whether_its_texts_are_numbers(
    tmp_path: Path, values: list[Any], numbers: list[float] | None, texts: list[str | None] | None
) -> None:
    np.testing.assert_equal(columns(tmp_path, *values), (numbers, texts))


def test_later_texts_join_the_numbers_and_earlier_ones_stay(tmp_path: Path) -> None:
    assert columns(tmp_path, 0.5, "True", parts=2) == ([0.5, 1.0], None)
    (tmp_path / "x.jsonl").unlink()
    np.testing.assert_equal(columns(tmp_path, "4", 0.5, parts=2), ([math.nan, 0.5], ["4", None]))


def test_a_group_is_a_text_whatever_it_looks_like(tmp_path: Path) -> None:
    lines = [{"step": 1, "prompt": "p", "group": value} for value in ("True", 1)]
    append(tmp_path / "x.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert sorted(run.samples()["group"]) == ["1", "True"]


def test_where_numbers_and_texts_remain_the_run_says_so(tmp_path: Path) -> None:
    lines = [{"step": 1, "prompt": "p", "response": "r", "margin": value} for value in (1, 0.5, "why", "3")]
    append(tmp_path / "x.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (remark,) = run.remarks
        assert run.steps["margin_mean"].tolist() == [1.5]
    assert remark.sentence == (
        "'margin' is a number in some samples and a text in 1 of 4 samples (25.0%): statistics of margin "
        "leave out the texts, which are the column margin_text."
    )
