"""The closed form of each loss's gradient equals finite differences of the loss in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpanel.update.loss_algorithms import ALGORITHMS, algorithm_named
from rlpanel.update.token_gradient import LossTotals, PreparedLoss, correlation, loss_totals
from rlpanel.update.update_batch import UpdateBatch
from tests.unit.update.loops import Case, by_token, group_advantages, random_case, slopes, whitened


def pushes(batch: UpdateBatch, name: str, **constants: Any) -> np.ndarray:
    """Return the push of each token."""
    prepared = PreparedLoss(batch, algorithm_named(name, **constants))
    return np.concatenate([prepared.push(block)[0] for block in batch.blocks()])


def expected(case: Case, name: str) -> np.ndarray:
    """Return the push of each token by the loss's definition."""
    grpo = by_token(case, group_advantages(case, "grpo"))
    centred = by_token(case, group_advantages(case, "dr_grpo"))
    options: dict[str, dict[str, Any]] = {
        "grpo": {},
        "dr_grpo": {"averaging": "constant"},
        "rloo": {"ratio": "sequence product", "averaging": "seq-mean-token-sum"},
        "reinforce++": {"averaging": "token-mean"},
        "reinforce++-baseline": {"averaging": "token-mean"},
        "gspo": {"ratio": "sequence mean", "low": 3e-4, "high": 4e-4},
        "cispo": {"averaging": "token-mean", "cap": True, "high": 0.28},
        "dapo": {"averaging": "token-mean", "high": 0.28},
        "tis": {"corrected": "tis"},
        "mis": {"corrected": "mis"},
        "icepop": {"corrected": "icepop"},
    }
    advantages = {
        "dr_grpo": centred,
        "rloo": by_token(case, group_advantages(case, "rloo")),
        "reinforce++": whitened(case, by_token(case, case.rewards)),
        "reinforce++-baseline": whitened(case, centred),
    }.get(name, grpo)
    chosen = options[name]
    if name == "dapo":
        flat = {
            g
            for g in case.groups
            if len({r for r, o in zip(case.rewards, case.groups, strict=True) if o == g}) == 1
        }
        pairs = zip(case.groups, case.truncated, strict=True)
        chosen = {**chosen, "keep": [group not in flat and not cut for group, cut in pairs]}
        if not any(chosen["keep"]):
            return np.zeros(sum(map(len, case.new)))
    return slopes(case, advantages, **chosen)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "ppo"])
@pytest.mark.parametrize("seed", range(4))
def test_the_push_is_the_negative_slope_of_the_loss(name: str, seed: int) -> None:
    case = random_case(seed)
    found = pushes(case.batch, name)
    assert found.any()
    np.testing.assert_allclose(found, expected(case, name), atol=2e-8)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_kl_term_adds_the_slope_of_its_estimator(estimator: str) -> None:
    case = random_case(11)
    wanted = slopes(case, by_token(case, group_advantages(case, "grpo")), beta=0.3, estimator=estimator)
    found = pushes(case.batch, "grpo", beta=0.3, estimator=estimator)
    np.testing.assert_allclose(found, wanted, atol=2e-8)
    assert not np.allclose(found, pushes(case.batch, "grpo"))


def test_a_kl_term_above_its_bound_has_no_gradient() -> None:
    case = random_case(11)
    case.reference[0] = case.new[0] + np.array([3.0, 2.0, *np.zeros(len(case.new[0]) - 2)])
    case.masks[0][:2] = 1.0
    bounded = pushes(case.batch, "grpo", beta=0.3, kl_bound=10.0)
    free = pushes(case.batch, "grpo", beta=0.3)
    # exp(3) − 3 − 1 = 16.1 is above 10, and exp(2) − 2 − 1 = 4.4 is not.
    assert np.flatnonzero(bounded != free).tolist() == [0]
    assert bounded[0] == pytest.approx(pushes(case.batch, "grpo")[0])


def test_a_kl_penalty_in_the_reward_changes_the_advantages() -> None:
    case = random_case(5)
    gaps = [old - ref for old, ref in zip(case.old, case.reference, strict=True)]
    parts = zip(case.rewards, gaps, case.masks, strict=True)
    rewards = [reward - 0.1 * float(gap @ mask) for reward, gap, mask in parts]
    wanted = slopes(
        case, by_token(case, group_advantages(case, "rloo", rewards)),
        ratio="sequence product", averaging="seq-mean-token-sum",
    )  # fmt: skip
    np.testing.assert_allclose(pushes(case.batch, "rloo", beta=0.1), wanted, atol=2e-8)
    to_go = []
    for reward, gap, mask in zip(case.rewards, gaps, case.masks, strict=True):
        left = np.array([float((gap * mask)[t:].sum()) for t in range(len(gap))])
        to_go.append(reward - 0.1 * left)
    wanted = slopes(case, whitened(case, to_go), averaging="token-mean")
    np.testing.assert_allclose(pushes(case.batch, "reinforce++", beta=0.1), wanted, atol=2e-8)


def test_a_token_is_clipped_only_on_the_side_that_the_advantage_pushes_to() -> None:
    case = random_case(0)
    case.rewards, case.groups = [1.0, 0.0], [0, 0]
    case.old = [np.zeros(2), np.zeros(2)]
    case.new = [np.log([1.5, 0.5]), np.log([1.5, 0.5])]
    case.engine = case.reference = case.old
    case.masks, case.truncated = [np.ones(2), np.ones(2)], [0.0, 0.0]
    found = pushes(case.batch, "grpo")
    assert (found == 0).tolist() == [True, False, False, True]
    (totals,) = loss_totals(case.batch, [PreparedLoss(case.batch, ALGORITHMS["grpo"])])
    assert totals.clipped == 2
    dual = pushes(case.batch, "grpo", dual_clip=1.4)
    assert (dual == 0).tolist() == [True, False, True, True]


def test_sums_over_blocks_equal_those_over_all_tokens() -> None:
    r = np.random.default_rng(3)
    counts = r.integers(0, 9000, 24)
    size = int(counts.sum())
    old = -r.exponential(1, size)
    batch = UpdateBatch.of_arrays(
        counts, np.repeat(np.arange(6), 4), r.random(24), old=old, new=old + r.normal(0, 0.2, size),
        mask=r.random(size) < 0.7,
    )  # fmt: skip
    losses = [PreparedLoss(batch, ALGORITHMS[name]) for name in ("grpo", "cispo")]
    totals = loss_totals(batch, losses)
    grpo, cispo = pushes(batch, "grpo"), pushes(batch, "cispo")
    owner = np.repeat(np.arange(24), counts)
    np.testing.assert_allclose(totals[0].weight, np.bincount(owner, np.abs(grpo), 24), atol=1e-12)
    np.testing.assert_allclose(totals[1].net, np.bincount(owner, cispo, 24), atol=1e-12)
    wanted = np.corrcoef(grpo[batch.mask], cispo[batch.mask])[0, 1]
    assert correlation(totals[0], totals[1], int(batch.mask.sum())) == pytest.approx(wanted, abs=1e-9)
    weight = np.bincount(owner, np.abs(grpo), 24)
    assert totals[0].effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_all_losses_at_once_have_the_sums_of_each_one() -> None:
    r = np.random.default_rng(7)
    counts = r.integers(0, 40, 40)
    size = int(counts.sum())
    old = -r.exponential(1, size)
    new = old + r.normal(0, 0.3, size)
    owner = np.repeat(np.arange(40), counts)
    new[owner == 3] = old[owner == 3] + 1.0  # clipped throughout if the advantage is positive
    batch = UpdateBatch.of_arrays(
        counts, np.repeat(np.arange(10), 4), np.where(np.arange(40) == 3, 1.0, r.integers(0, 3, 40) / 2),
        old=old, new=new, engine=old + r.normal(0, 0.7, size), reference=old + r.normal(0, 0.5, size),
        mask=r.random(size) < 0.8, truncated=(r.random(40) < 0.2).astype(float),
    )  # fmt: skip
    known = [ALGORITHMS[name] for name in ALGORITHMS if name != "ppo"]
    others = [
        algorithm_named("grpo", epsilon=0.0, epsilon_high=0.0), algorithm_named("grpo", beta=0.2),
        algorithm_named("grpo", clip="none"), algorithm_named("grpo", correction="sequence_mask"),
    ]  # fmt: skip
    losses = [PreparedLoss(batch, each) for each in (*known, *others)]
    all_pushes = [np.concatenate([each.push(block)[0] for block in batch.blocks()]) for each in losses]
    for totals, push in zip(loss_totals(batch, losses), all_pushes, strict=True):
        np.testing.assert_allclose(totals.weight, np.bincount(owner, np.abs(push), 40), atol=1e-12)
        np.testing.assert_allclose(totals.net, np.bincount(owner, push, 40), atol=1e-12)
        assert totals.square == pytest.approx(float(push @ push))
        assert totals.product == pytest.approx(float(push @ all_pushes[0]))
    assert losses[0].advantages.sample[3] > 0
    assert loss_totals(batch, losses)[0].weight[3] == 0


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_values_that_are_not_finite_have_no_weight_and_spoil_no_other(name: str) -> None:
    case = random_case(2)
    clean = case.batch
    size = len(case.rewards)
    logged = np.array(group_advantages(case, "grpo"))
    spoilt = [*case.rewards[:-1], float("nan")]
    case.rewards = spoilt
    case.new[0] = case.new[0].copy()
    case.new[0][0] = float("nan")
    case.old[1] = case.old[1].copy()
    case.old[1][0] = -float("inf")
    batch = UpdateBatch.of_arrays(**{
        field: getattr(case.batch, field)
        for field in ("counts", "group", "reward", "mask", "truncated", "new", "old", "engine", "reference")
    } | {"advantage": np.where(np.arange(size) == size - 1, np.nan, logged)})  # fmt: skip
    found = pushes(batch, name)
    assert np.isfinite(found).all()
    assert not found[batch.starts[-2] :].any()
    assert found.any()
    assert len(found) == clean.size


def test_groups_of_one_and_of_equal_rewards_have_no_weight() -> None:
    batch = UpdateBatch.of_arrays(np.array([2, 2, 2]), np.array([0, 1, 1]), np.array([1.0, 0.1, 0.1]))
    for name in ("grpo", "dr_grpo", "rloo", "gspo", "cispo", "dapo"):
        assert not pushes(batch, name).any()
    assert np.isnan(PreparedLoss(batch, ALGORITHMS["grpo"]).advantages.sample[0])


def test_an_infinite_reward_counts_as_missing() -> None:
    batch = UpdateBatch.of_arrays(np.array([1, 1, 1]), np.zeros(3, int), np.array([1.0, 0.0, np.inf]))
    found = pushes(batch, "dr_grpo")
    np.testing.assert_allclose(found, [1 / 6, -1 / 6, 0])


def test_an_episode_of_several_rows_counts_once_in_its_group() -> None:
    batch = UpdateBatch.of_arrays(
        np.ones(4, int), np.zeros(4, int), np.array([1.0, 1.0, 1.0, 0.0]),
        episode=np.array([0, 0, 0, 1]), outcome=np.array([False, False, True, True]),
    )  # fmt: skip
    found = PreparedLoss(batch, ALGORITHMS["dr_grpo"]).advantages.sample
    np.testing.assert_allclose(found, [0.5, 0.5, 0.5, -0.5])


@pytest.mark.parametrize(
    ("weight", "half"),
    [
        ([], 0),
        ([0.0, 0.0], 0),
        ([1.0], 1),
        ([1.0, 1.0, 1.0], 2),
        ([0.1, 0.4, 0.5], 1),
        ([0.1, 0.41, 0.49], 2),
    ],
)
def test_half_of_the_weight_is_that_of_the_heaviest_samples(weight: list[float], half: int) -> None:
    assert LossTotals(np.array(weight), np.array(weight), 0, 0.0, 0.0, 0.0).half == half


def test_a_sample_against_all_others_of_its_group_carries_half_also_in_float32() -> None:
    advantage = np.array([2.46789312, *[-0.352556169] * 7])  # as a trainer logged them
    assert abs(advantage.sum()) > 1e-9
    assert LossTotals(np.abs(advantage), advantage, 0, 0.0, 0.0, 0.0).half == 1
