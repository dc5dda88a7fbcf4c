"""The tree of an update has the weight of plain loops: groups, samples and turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlpanel.errors import SettingError
from rlpanel.update.loss_algorithms import ALGORITHMS, algorithm_named
from rlpanel.update.run_algorithm import OwnLoss
from rlpanel.update.token_gradient import PreparedLoss, loss_totals
from rlpanel.update.update_batch import UpdateBatch
from rlpanel.update.update_study import UpdateStudy, changed_loss, loss_text, other_losses, parsed_loss
from rlpanel.update.update_tree import GroupWeight, TurnWeights, update_tree

COUNTS = np.array([4, 6, 3, 5])
MASK = np.array([1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1], bool)


def _batch() -> UpdateBatch:
    reward, group = np.array([1.0, 0.0, 0.0, 3.0]), np.array([0, 0, 1, 1])
    return UpdateBatch.of_arrays(COUNTS, group, reward, mask=MASK)


def _tree(batch: UpdateBatch, most: int = 600) -> list[GroupWeight]:
    turns = TurnWeights()
    loss = PreparedLoss(batch, algorithm_named("dr_grpo", max_length=6))
    (totals,) = loss_totals(batch, [loss], turns.add)
    return update_tree(batch, totals, turns, most)


def test_the_weight_of_each_turn_is_that_of_its_tokens() -> None:
    batch = _batch()
    tree = _tree(batch)
    advantage = [0.5, -0.5, -1.5, 1.5]  # Dr. GRPO: the reward minus the mean of its group
    stretches = [[2, 1], [1, 3], [3], [1, 1]]  # lengths of the turns by the mask
    whole = sum(abs(a) * sum(turns) for a, turns in zip(advantage, stretches, strict=True))
    assert [group.at for group in tree] == [1, 0]
    for group in tree:
        for sample in group.samples:
            expected = [
                (abs(advantage[sample.at]) * turn / whole, advantage[sample.at] * turn / whole)
                for turn in stretches[sample.at]
            ]
            np.testing.assert_allclose(sample.turns, expected)
            assert sample.share == pytest.approx(sum(share for share, _ in expected))
    assert sum(group.share for group in tree) == pytest.approx(1)


def test_the_lightest_samples_of_a_large_batch_are_summed() -> None:
    batch = _batch()
    tree = _tree(batch, most=2)
    assert sum(len(group.samples) for group in tree) == 2
    assert sum(group.others for group in tree) == 2
    for group in tree:
        assert group.share == pytest.approx(sum(s.share for s in group.samples) + group.others_share)


def test_equal_rewards_have_no_tree() -> None:
    batch = UpdateBatch.of_arrays(COUNTS, np.array([0, 0, 1, 1]), np.ones(4), mask=MASK)
    assert _tree(batch) == []


def test_a_loss_of_an_address_is_read_and_written() -> None:
    text = "dapo epsilon_high=0.3 averaging=token-mean drop_flat=no"
    name, constants = parsed_loss(text)
    assert (name, constants) == (
        "dapo", {"epsilon_high": 0.3, "averaging": "token-mean", "drop_flat": False},
    )  # fmt: skip
    assert loss_text(name, constants) == text
    for wrong in ("dapo clip=1", "dapo epsilon=x"):
        with pytest.raises(SettingError):
            parsed_loss(wrong)


def test_other_rewards_and_groups_of_an_address_hold_for_all_losses() -> None:
    constants: dict[str, float | str | bool] = {
        "reward_weights": "my part=0.5,score=1e-3",
        "groups": "0.1..0.9",
    }
    text = loss_text("", constants)
    assert " " not in text.split(" ")[0]
    assert parsed_loss(text) == ("", constants)
    assert parsed_loss(loss_text("rloo", constants)) == ("rloo", constants)


def test_other_rewards_are_those_of_their_weighted_sum() -> None:
    """A reward whose only varying part has the weight 0 moves nothing; the run's own loss stays."""
    right, style = np.array([1.0, 0, 1, 0]), np.zeros(4)
    batch = UpdateBatch.of_arrays(COUNTS, np.array([0, 0, 1, 1]), right + style, mask=MASK)
    batch = replace(batch, parts={"right": right, "style": style})
    study = UpdateStudy(1, 4, batch, OwnLoss(ALGORITHMS["grpo"], ""))
    own, *others = other_losses(study, "reward_weights=right=0")
    assert own.is_own
    assert own.effective
    assert {each.effective for each in others if not each.needs} == {0.0}
    kept = other_losses(study, "groups=0.6..1")[1:]
    assert {each.samples for each in kept if not each.needs} == {0}
    for wrong in ("reward_weights=length=1", "groups=1..0", "reward_weights=right"):
        with pytest.raises(SettingError):
            other_losses(study, wrong)


def test_a_chosen_loss_keeps_the_other_rewards() -> None:
    right = np.array([1.0, 0, 1, 0])
    batch = UpdateBatch.of_arrays(COUNTS, np.array([0, 0, 1, 1]), right, mask=MASK)
    study = UpdateStudy(1, 4, replace(batch, parts={"right": right}), OwnLoss(ALGORITHMS["grpo"], ""))
    found = changed_loss(study, "dr_grpo beta=0 reward_weights=right=0")
    assert found is not None
    assert (found.algorithm.name, found.effective) == ("dr_grpo", 0.0)
