"""A sample exported as a line is read as the same sample."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel import schema
from rlpanel.store.query.notes_beside_log import Note
from rlpanel.store.query.samples_export import sample_line
from tests.factories import append, line, sample


def test_a_sample_that_was_taken_away_opens_as_a_run(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    odd = sample(7, rank=3, response="月 \ud800 <b>", reward=0.125, thoughts="unsure", ref_reward=math.inf)
    append(first / "rollout_data_rank_3.jsonl", json.dumps(odd).encode() + b"\n")
    run = rlpanel.open_run(first, follow=False)
    before = run.sample(run.samples().uid[0])
    append(second / "sample.jsonl", sample_line(before, Note(before.uid, "odd", "why?")))
    again = rlpanel.open_run(second, follow=False)
    after = again.sample(again.samples().uid[0])
    assert (after.step, after.rank, after.group) == (7, 3, before.group)
    assert [getattr(after, name) for name in ("prompt", "ref_response", "ground_truth")] == [
        before.prompt, before.ref_response, before.ground_truth,
    ]  # fmt: skip
    assert after.response == "月 \ufffd <b>"
    assert after.response_tokens == before.response_tokens
    for name in schema.ARRAYS:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.columns["kl_k3_mean"] == pytest.approx(before.columns["kl_k3_mean"])


def test_a_line_says_where_it_is_from_and_what_was_left_on_it(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1), line(2, thoughts="unsure", reward=None))
    run = rlpanel.open_run(tmp_path, follow=False)
    second = run.sample(run.samples().uid[1])
    found = json.loads(sample_line(second, Note(second.uid, "odd", "why?")))
    assert found["from"] == {"file": "rollout_data_rank_0.jsonl", "line": 2, "uid": second.uid}
    assert (found["tag"], found["note"], found["extra"]["thoughts"]) == ("odd", "why?", "unsure")
    assert "reward" not in found
    assert found["columns"]["reward"] is None
