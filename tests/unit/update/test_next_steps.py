"""Frequencies of an update's phrases in the next steps equal counts by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.queries.learning.update import update
from rlpanel.update.phrase_weights import NextSteps, next_steps
from tests.unit.update.test_read_batch import opened

STEPS, SAMPLES = 6, 12


def lines() -> list[dict[str, Any]]:
    """Samples in groups of four that say “so it is” more often from step to step."""
    found = []
    for step in range(1, STEPS + 1):
        for at in range(SAMPLES):
            chance = random.Random(f"{step}-{at}")
            says = chance.random() < step / STEPS
            tokens = ["So", " it", " is", " so"] if says else ["No", " it", " is", " not"]
            tokens += [f" w{chance.randrange(3)}", " and", " more"]
            found.append({
                "step": step, "prompt": f"p{at // 4}", "group": f"{step}-{at // 4}",
                "response": "".join(tokens), "response_tokens": tokens, "logprobs": [-1.0] * len(tokens),
                "reward": float(says), "advantage": float(says) - 0.5,
            })  # fmt: skip
    return found


def share(rows: list[dict[str, Any]], step: int, phrase: str) -> float:
    return float(np.mean([phrase.strip() in row["response"] for row in rows if row["step"] == step]))


def ranks(values: list[float]) -> list[float]:
    """Return the mean number of smaller and of equal values."""
    return [sum(other < value for other in values) + 0.5 * values.count(value) for value in values]


def test_phrases_are_counted_at_their_step_and_in_the_next_ones(tmp_path: Path) -> None:
    rows = lines()
    with opened(tmp_path / "run", rows, {"algo": "grpo"}) as run:
        found = update(run.data, 2, dimension="phrase", following=3)
        without = update(run.data, 2, dimension="phrase")
    assert found.about["next_steps"] == [3, 4, 5]
    assert len(found.rows) > 3
    for row in found.rows:
        assert row["frequency"] == pytest.approx(share(rows, 2, row["value"]))
        later = [share(rows, step, row["value"]) for step in (3, 4, 5)]
        assert row["following"] == pytest.approx(np.mean(later))
    change = [row["following"] - row["frequency"] for row in found.rows]
    wanted = np.corrcoef(ranks([row["push"] for row in found.rows]), ranks(change))[0, 1]
    assert found.about["agreement"] == pytest.approx(wanted)
    assert {row["frequency"] for row in without.rows} == {None}
    assert without.about["agreement"] is None


def test_the_last_step_has_no_next_one(tmp_path: Path) -> None:
    with opened(tmp_path / "run", lines(), {"algo": "grpo"}) as run:
        found = update(run.data, STEPS, dimension="phrase", following=3)
    assert found.about["next_steps"] == []
    assert found.rows[0]["frequency"] is not None
    assert found.rows[0]["following"] is None
    assert found.about["agreement"] is None


def test_lines_that_changed_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = lines()
    with opened(tmp_path / "run", rows, {"algo": "grpo"}) as run:
        path = tmp_path / "run" / "rollout_data_rank_0.jsonl"
        whole = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join([*whole[:-1], whole[-1].replace("more", "less")]), "utf-8")
        asked = np.sort(run.snapshot.rows_of(STEPS))
        *_, found = next_steps(run.data.index, run.view, asked, [" more"])
    assert isinstance(found, NextSteps)
    assert found.unreadable == 1
    assert found.now.tolist() == [1.0]
