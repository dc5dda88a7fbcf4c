"""The shares of a sample's turns follow from its group; where they do not, a sentence says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.update.update_tree import SampleTurns, sample_turns
from tests.unit.update.test_read_batch import grpo, lines, opened


def shares(folder: Path, at: int = 4, facts: dict[str, Any] | None = None, **changes: Any) -> SampleTurns:
    """Return the turns of the sample in line ``at``: of 3 + ``at`` tokens, the third is not in the loss."""
    mask = {"loss_mask": lambda _, n: [1, 1, 0, *[1] * (n - 3)]}
    with opened(
        folder / "run", lines(**(mask | changes)), {"algo": "grpo"} if facts is None else facts
    ) as run:
        (found,) = sample_turns(run.data.index, run.view, run.snapshot.uid(at))
    return found


def test_turns_share_the_weight_by_their_tokens(tmp_path: Path) -> None:
    found = shares(tmp_path, advantage=grpo)  # line 4 has 7 tokens: 2, one that is masked, and 4
    sign = np.sign(grpo(4, 0))
    np.testing.assert_allclose(found.shares, [(2 / 6, sign * 2 / 6), (4 / 6, sign * 4 / 6)], rtol=1e-5)
    assert (found.algorithm, found.why) == ("grpo", "")


def test_advantages_of_tokens_weigh_turns(tmp_path: Path) -> None:
    found = shares(tmp_path, advantages=lambda at, n: [3.0, 3.0, 9.0, *[-1.0] * (n - 3)])
    np.testing.assert_allclose(found.shares, [(0.6, 0.6), (0.4, -0.4)], rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "facts", "why"),
    [
        ({"advantage": 0.0}, None, "its gradient is zero"),
        ({"reward": ..., "advantage": ...}, {"algo": "none of ours"}, "algorithm is not known"),
        ({}, {"algo": "reinforce++"}, "need all samples of the step"),
        ({"split": lambda at, _: "eval" if at == 4 else "train"}, None, "did not train the policy"),
        ({"response_tokens": ..., "logprobs": ..., "loss_mask": ..., "response": ""}, None, "no tokens"),
    ],
)
def test_what_is_not_known_is_said(
    tmp_path: Path, changes: dict[str, Any], facts: dict[str, Any] | None, why: str
) -> None:
    found = shares(tmp_path, facts=facts, **changes)
    assert found.shares == []
    assert why in found.why
