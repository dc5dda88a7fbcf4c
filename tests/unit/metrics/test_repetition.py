"""Texts with and without repetition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.metrics.rollout_endings import distinct_4, zlib_ratio
from tests.factories import append, line

LOOP = "again and " * 50


def test_runs_of_four_characters_by_hand() -> None:
    # The 29 four-grams of "abcd" * 8 are only abcd, bcda, cdab and dabc.
    assert distinct_4(np.array(["abcd" * 8], object)).tolist() == [4 / 29]


def test_a_loop_packs_well_and_chance_does_not() -> None:
    chance = "".join(map(chr, np.random.default_rng(0).integers(0x4E00, 0x9FA5, 300)))
    loop, other = zlib_ratio(np.array([LOOP, chance], object))
    assert loop < 0.1 < 0.6 < other


@pytest.mark.parametrize("text", ["", "short", "\ud83d" * 4])
def test_a_short_text_says_nothing(text: str) -> None:
    found = [metric(np.array([text], object))[0] for metric in (zlib_ratio, distinct_4)]
    assert np.isnan(found).all()


def test_samples_with_their_texts_have_both(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1, response=LOOP), line(1, index=1, drop=["response"]))
    frame = rlpanel.open_run(tmp_path, follow=False).samples(step=1, text=True)
    assert frame.distinct_4.round(4).tolist()[0] == round(10 / 497, 4)
    assert frame.zlib_ratio.isna().tolist() == [False, True]
