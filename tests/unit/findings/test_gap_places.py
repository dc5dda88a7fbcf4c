"""Differences of logprobs that are at the first or the last token of the responses are said to be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.findings.explained import gap_place
from tests.factories import append, line

TOKENS, SAMPLES = 12, 8


def run_with(folder: Path, gap: np.ndarray, **more: Any) -> rlpanel.Run:
    """A run of one step whose engine differs from the trainer by ``gap`` nats at each token."""
    own = np.full(TOKENS, -1.0)
    lines = [
        line(
            1,
            index=index,
            tokens=False,
            response_tokens=["a"] * TOKENS,
            logprobs=own.tolist(),
            rollout_logprobs=(own - gap).tolist(),
            **more,
        )
        for index in range(SAMPLES)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def place_of(run: rlpanel.Run, color: str = "engine_log_ratio") -> str:
    return gap_place(run.index, run.snapshot, np.flatnonzero(run.snapshot.alive), color)


@pytest.mark.parametrize(("at", "name"), [(0, "first"), (-1, "last")])
def test_a_gap_at_one_end_of_the_responses_is_named(tmp_path: Path, at: int, name: str) -> None:
    gap = np.full(TOKENS, 0.01)
    gap[at] = 2.0
    share = 2.0 / gap.sum()
    assert place_of(run_with(tmp_path, gap)) == (
        f"{share:.0%} of the differences between trainer and engine are at the {name} token of the response, "
        "2.00 nats there on average; 8 responses were read."
    )


def test_a_gap_over_all_tokens_has_no_place(tmp_path: Path) -> None:
    assert place_of(run_with(tmp_path, np.full(TOKENS, 0.3))) == ""


def test_tokens_outside_of_the_loss_do_not_count(tmp_path: Path) -> None:
    gap, mask = np.full(TOKENS, 0.01), np.ones(TOKENS)
    gap[:2], mask[0] = (5.0, 2.0), 0.0
    assert "the first token of the response, 2.00 nats there" in place_of(
        run_with(tmp_path, gap, loss_mask=mask.tolist())
    )


def test_a_side_that_is_not_logged_has_no_place(tmp_path: Path) -> None:
    gap = np.zeros(TOKENS)
    gap[0] = 2.0
    assert place_of(run_with(tmp_path, gap), "kl_k3") == ""
