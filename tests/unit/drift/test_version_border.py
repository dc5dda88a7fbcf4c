"""The gap before and after a border of versions inside a response."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.drift.gap_levels import gap_levels
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens

#: Tokens of the first version, and of the second one.
OLD, NEW = 30, 20


@pytest.mark.parametrize("by_token", [False, True])
def test_tokens_of_the_older_version_are_told_apart(tmp_path: Path, *, by_token: bool) -> None:
    """Half of the responses have one version only; the tokens before the border have five times the gap."""
    rng = np.random.default_rng(0)
    old, new = [], []
    with (tmp_path / "rank_0.jsonl").open("w") as file:
        for number in range(48):
            has_border = number % 2 == 0
            logprobs = -rng.exponential(0.6, OLD + NEW) - 0.6
            gap = rng.normal(0, 0.02, OLD + NEW)
            if has_border:
                gap[:OLD] *= 5
                old += np.abs(gap[:OLD]).tolist()
                new += np.abs(gap[OLD:]).tolist()
            versions = [[3, OLD], [4, NEW]] if has_border else [[4, OLD + NEW]]
            line = {"step": 4 + number // 12, "prompt": "p", "response": "r", "reward": 1.0}
            line |= {"logprobs": logprobs.tolist(), "rollout_logprobs": (logprobs - gap).tolist()}
            line |= {"policy_version": versions, "trainer_version": 4 + number // 12}
            if by_token:
                line["policy_version"] = [versions[0][0], 4]
                line["token_version"] = [version for version, count in versions for _ in range(count)]
            file.write(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        *_, tokens = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot))
    assert isinstance(tokens, GapTokens)
    first, second = (each for each in gap_levels(tokens) if each.dimension == "version in the response")
    assert (first.value, first.tokens, second.value, second.tokens) == ("first", 24 * OLD, "second", 24 * NEW)
    assert first.mean == pytest.approx(np.mean(old))
    assert second.mean == pytest.approx(np.mean(new))
