"""The change of a curve is split into shares that add up, and a planted cause is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.change_sentences import sentences
from rlpanel.analysis.step_change import explain_step
from rlpanel.analysis.step_windows import can_split, curve_parts
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.metrics.engine.segments import Segments
from rlpanel.store.snapshot.run_view import RunView

Change = Callable[[int, int, int, dict[str, Any]], None]


def run_of(folder: Path, change: Change | None = None, *, steps: int = 3, samples: int = 32) -> rlpanel.Run:
    """A run with two ranks, groups of four and a category, whose samples ``change`` modifies."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in (0, 1):
        with (folder / f"rollout_data_rank_{rank}.jsonl").open("w") as file:
            for step in range(1, steps + 1):
                for index in range(samples):
                    chance = random.Random(f"{step}-{rank}-{index}")
                    made: dict[str, Any] = {
                        "step": step,
                        "rank": rank,
                        "prompt": f"prompt {index // 4} of {rank} at {step}",
                        "response": f"answer {chance.randint(0, 999)}",
                        "group": f"{step}-{rank}-{index // 4}",
                        "reward": chance.gauss(1.0, 0.2),
                        "lang": "zh" if index % 4 else "en",
                    }
                    if change:
                        change(step, rank, index, made)
                    file.write(json.dumps(made) + "\n")
    return rlpanel.open_run(folder, follow=False)


def lower_on_rank_1(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
    if step == 3 and rank == 1:
        made["reward"] -= 2.0


def three_outliers(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
    if step == 3 and rank == 0 and index in (3, 9, 20):
        made["reward"] = 60.0


def kinds_with_all_elements(view: RunView, column: str) -> dict[str, float]:
    found = explain_step(view, column, 3)
    return {kind: sum(part.share for part in found.of_kind(kind)) for kind in ("rank", "lang", "group")}


def test_the_shares_of_each_kind_add_up_to_one(tmp_path: Path) -> None:
    run = run_of(tmp_path, lower_on_rank_1)
    assert kinds_with_all_elements(run.view, "reward") == pytest.approx({"rank": 1, "lang": 1, "group": 1})


def test_a_ranks_share_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    run = run_of(tmp_path, lower_on_rank_1)
    frame = run.samples()
    now, before = frame[frame.step == 3], frame[frame.step < 3]
    m, m0 = now.reward.mean(), before.reward.mean()
    expected = {}
    for rank in (0, 1):
        added = sum(x - m0 for x in now.reward[now["rank"] == rank]) / len(now)
        added -= sum(x - m0 for x in before.reward[before["rank"] == rank]) / len(before)
        expected[str(rank)] = added / (m - m0)
    shares = {part.name: part.share for part in explain_step(run.view, "reward", 3).of_kind("rank")}
    assert shares == pytest.approx(expected)


def test_without_is_the_mean_of_the_other_samples(tmp_path: Path) -> None:
    run = run_of(tmp_path, three_outliers)
    now = run.samples(3)
    few = explain_step(run.view, "reward", 3).of_kind("samples")[0]
    assert few.without == pytest.approx(now.reward[~now.uid.isin(few.uids)].mean())


def test_a_category_that_was_always_higher_is_not_the_cause(tmp_path: Path) -> None:
    def zh_is_higher(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
        made["reward"] = (50.0 if made["lang"] == "zh" else 0.0) + (1.0 if step == 3 else 0.0)

    change = explain_step(run_of(tmp_path, zh_is_higher).view, "reward", 3)
    shares = {part.name: part.share for part in change.of_kind("lang")}
    assert shares == pytest.approx({"zh": 0.75, "en": 0.25})


def test_the_rank_of_the_cause_is_named(tmp_path: Path) -> None:
    change = explain_step(run_of(tmp_path, lower_on_rank_1).view, "reward", 3)
    first = change.of_kind("rank")[0]
    assert (first.name, first.where, sentences(change)[0][:14]) == ("1", "rank == 1", "rank 1 carries")


def test_few_samples_are_named_with_their_uids(tmp_path: Path) -> None:
    run = run_of(tmp_path, three_outliers)
    change = explain_step(run.view, "reward", 3)
    frame = run.samples(3)
    outliers = set(frame.uid[frame.reward == 60.0])
    assert sentences(change)[0].startswith("3 of 64 samples carry")
    assert set(change.of_kind("samples")[0].uids) == outliers


def test_a_change_as_large_as_chance_makes_it_has_no_cause(tmp_path: Path) -> None:
    change = explain_step(run_of(tmp_path).view, "reward", 3)
    assert (change.is_noise, len(sentences(change))) == (True, 1)


def test_a_category_that_became_frequent_is_described_by_its_share(tmp_path: Path) -> None:
    def more_en(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
        made["lang"] = "en" if index % 8 < (3 if step == 3 else 1) else "zh"
        made["reward"] = float(made["lang"] == "en") + made["reward"] / 100

    texts = sentences(explain_step(run_of(tmp_path, more_en).view, "reward", 3))
    assert "The mix of lang makes all of the change of reward: en 12% → 38%, zh 88% → 62%." in texts


def test_any_step_can_be_compared_with(tmp_path: Path) -> None:
    change = explain_step(run_of(tmp_path).view, "reward", 3, since=1)
    assert (change.steps, change.since) == ((3, 3), (1, 1))


def test_two_windows_of_steps_are_compared(tmp_path: Path) -> None:
    run = run_of(tmp_path, lower_on_rank_1, steps=6)
    change = explain_step(run.view, "reward", (3, 4), (5, 6))
    frame = run.samples()
    assert (change.value, change.before) == (
        pytest.approx(frame.reward[frame.step.isin([3, 4])].mean()),
        pytest.approx(frame.reward[frame.step.isin([5, 6])].mean()),
    )
    assert sum(part.share for part in change.of_kind("rank")) == pytest.approx(1.0)
    assert len({part.where for part in change.of_kind("group")}) == 2 * 2 * 8  # steps, ranks, groups


def with_parts(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
    """The part ``format`` is 0.5, and is not logged from step 3 on; ``right`` falls by 0.1 then."""
    late = step >= 3
    made["rewards/format"] = None if late else 0.5
    made["rewards/right"] = made["reward"] - (0.1 if late else 0.0)
    made["reward"] = made["rewards/right"] + (0.0 if late else 0.5)


def test_a_reward_is_split_into_its_parts_and_the_missing_one_is_named(tmp_path: Path) -> None:
    change = explain_step(run_of(tmp_path, with_parts).view, "reward", 3)
    first, second = change.of_kind("part")
    assert (first.name, first.contribution, first.count) == ("rewards/format", pytest.approx(-0.5), 0)
    assert first.share + second.share == pytest.approx(1.0)
    assert "is the part rewards/format, which 100% of the samples lack (0% before)" in sentences(change)[0]


def test_a_mix_that_makes_the_change_is_named_and_not_its_values(tmp_path: Path) -> None:
    def more_hard(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
        made["lang"] = "hard" if index % 10 < (8 if step == 3 else 3) else "easy"
        made["reward"] = float(made["lang"] == "easy") + made["reward"] / 100

    texts = sentences(explain_step(run_of(tmp_path, more_hard).view, "reward", 3))
    assert len(texts) == 1
    assert texts[0].startswith("The mix of lang makes all of the change of reward: ")
    assert "hard" in texts[0]
    assert "→" in texts[0]


def test_a_number_that_did_not_change_has_no_shares(tmp_path: Path) -> None:
    def same(step: int, rank: int, index: int, made: dict[str, Any]) -> None:
        made["reward"] = 1.0

    change = explain_step(run_of(tmp_path, same).view, "reward", 3)
    assert (change.parts, sentences(change)) == ((), ["reward did not change from steps 1–2 to step 3."])


@pytest.mark.parametrize(
    ("column", "step", "since", "message"),
    [
        ("reward", 9, None, "no step 9"),
        ("reward", 1, None, "none before it"),
        ("reward", 2, 9, "no step 9"),
        ("reward", 2, 2, "compared with itself"),
        ("nothing", 2, None, "no number 'nothing'"),
        ("reward:std", 2, None, "no number 'reward:std'"),
        ("reward_group_std", 2, None, "not a mean"),
    ],
)
def test_what_cannot_be_explained_gets_a_message(
    tmp_path: Path, column: str, step: int, since: int | None, message: str
) -> None:
    view = run_of(tmp_path).view
    with pytest.raises(SettingError, match=message):
        explain_step(view, column, step, since)


def test_parts_of_step_metrics_give_the_metric(grpo: rlpanel.Run) -> None:
    view = grpo.view
    snapshot = view.snapshot
    rows = snapshot.rows_of(46)
    position = snapshot.steps.position(46)
    for name in ("kl_k3_pooled", "kl_k1_pooled", "entropy_pooled", "surprisal_pooled", "truncated_share"):
        assert curve_parts(view, name, rows).value == pytest.approx(view.step_values(name)[position]), name


def test_a_metric_over_token_counts_is_a_sum_over_a_sum() -> None:
    draw = np.random.default_rng(1)
    checked = 0
    for metric in METRICS.values():
        if metric.level == "step" and can_split(metric) and len(metric.needs) == 2:
            sums, counts = draw.normal(size=6), draw.integers(1, 9, 6).astype(float)
            inputs = dict(zip(metric.needs, (sums, counts), strict=True))
            value = metric.call(
                {"by": Segments(np.array([0]), 6), **inputs, **dict.fromkeys(metric.constants, 0.2)}
            )
            assert value == pytest.approx(sums.sum() / counts.sum()), metric.name
            checked += 1
    assert checked >= 4
