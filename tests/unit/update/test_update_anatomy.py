"""The anatomy of an update equals sums in plain loops over the tokens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.update.compare_losses import compare_losses, weighted_rewards
from rlpanel.update.loss_algorithms import ALGORITHMS, algorithm_named
from rlpanel.update.token_gradient import PreparedLoss
from rlpanel.update.update_anatomy import UpdateAnatomy, anatomy, token_class
from rlpanel.update.update_batch import UpdateBatch
from tests.factories import append, line
from tests.unit.update.loops import by_token, group_advantages, random_case, slopes

WORDS = ["<|im_end|>", "Ġthe", "Ġ", "42", "Ġ,", "Wait"]


@pytest.fixture(scope="module")
def batch() -> UpdateBatch:
    """A batch whose tokens have texts, in two languages."""
    case = random_case(7)
    found = case.batch
    token = np.random.default_rng(1).integers(0, len(WORDS), found.size).astype(np.int32)
    labels = {"lang": ["zh" if at % 3 else "en" for at in range(len(found))]}
    return replace(found, token=token, tokens=WORDS, labels=labels)


@pytest.fixture(scope="module")
def found(batch: UpdateBatch) -> UpdateAnatomy:
    return anatomy(batch, PreparedLoss(batch, ALGORITHMS["grpo"]))


@pytest.fixture(scope="module")
def pushes() -> np.ndarray:
    case = random_case(7)
    return slopes(case, by_token(case, group_advantages(case, "grpo")))


def keys_of(batch: UpdateBatch) -> list[dict[str, object]]:
    """Return the value of each dimension of each token, by loops."""
    keys = []
    at = 0
    for sample, count in enumerate(batch.counts.tolist()):
        turn, before = -1, False
        for position in range(count):
            inside = bool(batch.mask[at])
            turn += inside and not before
            before = inside
            keys.append({
                "turn": str(turn), "sample": str(sample), "group": str(batch.group[sample]),
                "position": "0–15" if position < 16 else "16–63", "lang": batch.labels["lang"][sample],
                "token": WORDS[batch.token[at]], "token class": token_class(WORDS[batch.token[at]]),  # type: ignore[index]
            })  # fmt: skip
            at += 1
    return keys


@pytest.mark.parametrize("dimension", ["turn", "sample", "group", "position", "lang", "token", "token class"])
def test_shares_by_dimension_equal_sums_in_loops(
    batch: UpdateBatch, found: UpdateAnatomy, pushes: np.ndarray, dimension: str
) -> None:
    share, push, tokens = defaultdict(float), defaultdict(float), defaultdict(int)  # type: ignore[var-annotated]
    samples: dict[object, set[object]] = defaultdict(set)
    for key, value, inside in zip(keys_of(batch), pushes, batch.mask, strict=True):
        if inside:
            name = key[dimension]
            share[name] += abs(value) / np.abs(pushes).sum()
            push[name] += value / np.abs(pushes).sum()
            tokens[name] += 1
            samples[name].add(key["sample"])
    rows = [row for row in found.rows if row.dimension == dimension]
    assert len(rows) == min(len(share), 12)
    for row in rows:
        assert row.share == pytest.approx(share[row.value], abs=1e-7)
        assert row.push == pytest.approx(push[row.value], abs=1e-7)
        assert row.tokens == tokens[row.value]
        assert row.samples in (None, len(samples[row.value]))


def test_cancelled_weight_is_twice_the_smaller_of_both_sums(
    batch: UpdateBatch, found: UpdateAnatomy, pushes: np.ndarray
) -> None:
    up, down = defaultdict(float), defaultdict(float)  # type: ignore[var-annotated]
    for key, value in zip(keys_of(batch), pushes, strict=True):
        pair = (key["group"], key["token"])
        up[pair] += max(value, 0.0)
        down[pair] += max(-value, 0.0)
    wanted = sum(2 * min(up[pair], down[pair]) for pair in up) / np.abs(pushes).sum()
    assert 0 < wanted < 1
    assert found.cancelled == pytest.approx(wanted, abs=1e-7)


def test_words_that_do_not_occur_change_nothing(batch: UpdateBatch, found: UpdateAnatomy) -> None:
    """With many words, groups are summed by the words that they have."""
    other = replace(batch, tokens=[*WORDS, *(f"w{at}" for at in range(5000))])
    same = anatomy(other, PreparedLoss(other, ALGORITHMS["grpo"]))
    assert same.cancelled == pytest.approx(found.cancelled, abs=1e-12)
    for one, two in zip(same.rows, found.rows, strict=True):
        assert (one.dimension, one.value, one.tokens) == (two.dimension, two.value, two.tokens)
        assert (one.share, one.push) == (pytest.approx(two.share), pytest.approx(two.push, abs=1e-9))


def test_half_of_the_weight_is_carried_by_the_fewest_samples(
    batch: UpdateBatch, found: UpdateAnatomy, pushes: np.ndarray
) -> None:
    owner = np.repeat(np.arange(len(batch)), batch.counts)
    weight = np.bincount(owner, np.abs(pushes))
    chosen = weight[found.half].sum() / weight.sum()
    assert chosen >= 0.5 - 1e-9
    assert chosen - weight[found.half[-1]] / weight.sum() < 0.5
    assert weight[found.half].min() >= np.delete(weight, found.half).max() - 1e-12
    assert found.totals.effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-6)
    assert found.masked == pytest.approx(1 - batch.mask.mean())


def test_tokens_without_texts_leave_what_is_cancelled_unknown(batch: UpdateBatch) -> None:
    other = replace(batch, token=None, tokens=[])
    found = anatomy(other, PreparedLoss(other, ALGORITHMS["grpo"]))
    assert np.isnan(found.cancelled)
    assert not [row for row in found.rows if row.dimension.startswith("token")]


def test_a_part_that_does_not_differ_within_groups_has_no_weight(batch: UpdateBatch) -> None:
    other = replace(batch, parts={"score": batch.reward, "format": np.ones(len(batch))})
    found = anatomy(other, PreparedLoss(other, ALGORITHMS["grpo"]))
    shares = {row.value: row.share for row in found.rows if row.dimension == "reward part"}
    assert shares["score"] == pytest.approx(1)
    assert shares["format"] == 0


def test_no_update_is_an_anatomy_without_weight() -> None:
    empty = UpdateBatch.of_arrays(np.array([2, 2]), np.zeros(2, int), np.ones(2))
    found = anatomy(empty, PreparedLoss(empty, ALGORITHMS["grpo"]))
    assert len(found.half) == 0
    assert found.flat == 1
    assert np.isnan(found.totals.effective)
    assert all(row.share == 0 for row in found.rows)


def test_losses_side_by_side_say_what_they_change_and_what_they_need(batch: UpdateBatch) -> None:
    others = [algorithm_named(name) for name in ("grpo", "dr_grpo", "ppo", "dapo")]
    shown = compare_losses(batch, ALGORITHMS["grpo"], others, label="lang")
    own, same, other, ppo, dapo = shown
    assert own.is_own
    assert (same.correlation, same.changed, same.gained, same.lost) == (pytest.approx(1), 0, 0, 0)
    assert other.correlation is not None
    assert other.correlation < 1
    assert (ppo.needs, ppo.effective) == ("values, advantage or advantages", None)
    assert dapo.lost == own.weighted - dapo.weighted  # type: ignore[operator]
    for each in (own, same, other, dapo):
        assert each.mass is not None
        assert sum(each.mass.values()) == pytest.approx(1)
        assert set(each.mass) == {"en", "zh"}
    with pytest.raises(SettingError, match="known are length, lang"):
        compare_losses(batch, None, others, label="source")


def test_groups_may_be_kept_by_their_mean_reward(batch: UpdateBatch) -> None:
    mean = np.array([batch.reward[batch.group == group].mean() for group in batch.group])
    low = float(np.unique(mean)[0])
    (shown,) = compare_losses(batch, None, [ALGORITHMS["dr_grpo"]], pass_range=(low + 1e-9, 9))
    assert shown.samples == int((mean > low).sum())


def test_other_weights_of_reward_parts_reverse_the_push(batch: UpdateBatch) -> None:
    other = replace(batch, parts={"score": batch.reward, "format": np.full(len(batch), np.nan)})
    rewards, apart = weighted_rewards(other, {"score": -1.0})
    np.testing.assert_allclose(rewards, -batch.reward)
    assert apart == 0
    flat = replace(other, reward=batch.reward + 1)
    assert weighted_rewards(flat, {"score": 1.0})[1] == len(batch)
    shown = compare_losses(other, ALGORITHMS["dr_grpo"], [ALGORITHMS["dr_grpo"]], rewards=rewards)
    assert shown[1].changed == shown[0].weighted
    with pytest.raises(SettingError, match="no part 'speed'"):
        weighted_rewards(other, {"speed": 1.0})
    with pytest.raises(SettingError, match="rewards is not logged"):
        weighted_rewards(batch, {"score": 1.0})


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("nosuch", {}),
        ("grpo", {"beta": -1}),
        ("grpo", {"averaging": "x"}),
        ("grpo", {"x": 1}),
        ("grpo", {"correction": "x"}),
    ],
)
def test_a_loss_that_does_not_exist_is_an_error(name: str, constants: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        algorithm_named(name, **constants)


@pytest.mark.parametrize(
    ("token", "wanted"),
    [("<|im_end|>", "special"), ("ĠWait", "word"), ("42", "digits"), ("Ġ,", "punctuation"), ("Ċ", "space")],
)
def test_classes_of_tokens(token: str, wanted: str) -> None:
    assert token_class(token) == wanted


def test_parts_count_with_the_weights_that_the_run_logs(batch: UpdateBatch) -> None:
    """A part with the weight 0 carries nothing; twice the weight is the same as twice the part."""
    draw = np.random.default_rng(5)
    parts = {"right": draw.normal(0, 1, len(batch)), "style": draw.normal(0, 1, len(batch))}

    def shares(batch: UpdateBatch) -> dict[str, float]:
        rows = anatomy(batch, PreparedLoss(batch, ALGORITHMS["grpo"])).rows
        return {row.value: row.share for row in rows if row.dimension == "reward part"}

    weighted = replace(batch, parts=parts, part_weights={"right": 1.0, "style": 0.0})
    assert shares(weighted) == {"right": pytest.approx(1.0), "style": 0.0}
    double = shares(replace(batch, parts=parts, part_weights={"right": 2.0, "style": 1.0}))
    assert double == pytest.approx(shares(replace(batch, parts=parts | {"right": 2 * parts["right"]})))


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_the_mean_reward_of_a_group_is_that_of_its_finite_rewards(tmp_path: Path, odd: float) -> None:
    rewards = [odd, 0.0, 1.0, 1.0]
    lines = [line(index=at, reward=reward) for at, reward in enumerate(rewards)]
    append(tmp_path / "rollout_data_rank_0.jsonl", *lines)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        [group] = run.ask("update", step=1, algorithm="grpo", dimension="group").rows
    assert (group["samples"], group["reward"]) == (4, pytest.approx(2 / 3))
