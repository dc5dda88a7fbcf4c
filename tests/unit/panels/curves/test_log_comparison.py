"""Whether our numbers equal the trainer's scalars: point by point, and only if both are the same number."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.panels.curves.trainer_scalars import LogComparison, comparison_of, comparisons, drawn_over
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Progress
from tests.factories import append, line, write_run
from tests.trainer_log import all_comparisons

#: Facts of a TRL run in which a rollout is trained on once, as the recorder writes them.
ONE_PASS = {
    "num_iterations": 1,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
    "processes": 1,
    "versions": {"trl": "1.16.0"},
}


def view_of(run: Path) -> RunView:
    with open_run(run, follow=False) as opened:
        return opened.view


def means(run: Path, column: str = "reward") -> pd.Series:
    rows = [json.loads(text) for path in sorted(run.glob("*rank*")) for text in path.read_text().splitlines()]
    return pd.DataFrame(rows).groupby("step")[column].mean()


def log(run: Path, scalar: str, values: Mapping[int, float]) -> None:
    lines = (
        json.dumps({"step": int(step), scalar: value}).encode() + b"\n" for step, value in values.items()
    )
    append(run / "scalars.jsonl", *lines)


def only(view: RunView, curve: str) -> LogComparison:
    (found,) = comparisons(view, curve)
    return found


def text_of(comparison: LogComparison) -> str:
    """The label as it is read in a card."""
    (label,) = re.findall('<span class="unit log".*?>(.*?)</span>', comparison.html)
    return label


def rows_with_kl(run: Path, facts: Mapping[str, Any], steps: int = 1) -> float:
    """Write two micro-batches per step, of three tokens with log-ratio 1 and one with 0; return their KL k3.

    k3 of a log-ratio of 1 is e^-1, of 0 it is 0.
    """
    run.mkdir(parents=True, exist_ok=True)
    (run / "run.json").write_text(json.dumps(facts))
    rows = [
        {"step": s, "prompt": "p", "logprobs": [-1.0] * n, "ref_logprobs": [-1.0 - d] * n, "micro_batch": m}
        for s in range(1, steps + 1)
        for m, (n, d) in enumerate([(3, 1.0), (1, 0.0)])
    ]
    append(run / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    return math.exp(-1) / 2


@pytest.mark.parametrize(
    ("off", "words"), [(0.0, "matches trainer log"), (0.25, "differs from trainer log by 0.25")]
)
def test_the_head_tells_how_far_the_log_is_from_the_rows(tmp_path: Path, off: float, words: str) -> None:
    run = write_run(tmp_path / "run", steps=3)
    (run / "run.json").write_text('{"algo": "grpo"}')
    expected = means(run)
    log(run, "reward", expected + off * (expected.index == 2))
    found = only(view_of(run), "reward")
    assert found.largest == pytest.approx(off, abs=1e-12)
    assert (text_of(found), found.step if off else 2, found.points) == (words, 2, 3)
    assert "Equal means within 0.001% or 1e−6." in found.tip


def test_small_points_beside_a_large_one_are_compared_for_themselves(tmp_path: Path) -> None:
    """Nine of ten logged points are twice ours; a spike of 1000 does not hide that."""
    run = tmp_path / "run"
    run.mkdir()
    ours = {step: 1000.0 if step == 10 else 1e-3 * step for step in range(1, 11)}
    rows = [{"step": step, "prompt": "x", "response": "y", "reward": ours[step]} for step in ours]
    append(run / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    (run / "run.json").write_text('{"algo": "grpo"}')
    log(run, "reward", {step: value * (2 if step < 10 else 1) for step, value in ours.items()})
    found = only(view_of(run), "reward")
    assert (found.verdict, found.different, found.points) == ("differs", 9, 10)


def test_a_point_every_few_steps_is_compared_with_the_mean_of_its_steps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=9)
    (run / "run.json").write_text('{"algo": "grpo"}')
    ours = means(run)
    log(run, "reward", {4: ours.loc[1:4].mean(), 8: ours.loc[5:8].mean()})
    found = only(view_of(run), "reward")
    assert (found.verdict, found.points, found.window) == ("equal", 2, 4)
    assert "compared with the mean of up to 4 steps" in found.tip


def test_the_first_point_may_be_of_one_step(tmp_path: Path) -> None:
    """The transformers trainers can log the first step, whatever ``logging_steps`` is."""
    run = write_run(tmp_path / "run", steps=6)
    (run / "run.json").write_text('{"algo": "grpo", "logging_steps": 3}')
    ours = means(run)
    log(run, "reward", {1: ours[1], 3: ours.loc[2:3].mean(), 6: ours.loc[4:6].mean()})
    found = only(view_of(run), "reward")
    assert (found.verdict, found.points) == ("equal", 3)


def test_a_point_whose_steps_are_missing_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=[1, 2, 3, 4, 7, 8])
    (run / "run.json").write_text('{"algo": "grpo"}')
    ours = means(run)
    log(run, "reward", {4: ours.loc[:4].mean(), 8: 7.0})
    found = only(view_of(run), "reward")
    assert (found.verdict, found.points, found.partial) == ("equal", 1, 1)


def test_a_step_whose_samples_lack_the_number_in_part_is_not_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    (run / "run.json").write_text('{"algo": "grpo"}')
    expected = means(run)
    bare = json.dumps({"step": 2, "prompt": "x", "response": "y"}).encode() + b"\n"
    append(run / "rollout_data_rank_0.jsonl", bare)
    log(run, "reward", {1: expected[1], 2: 100.0})
    found = only(view_of(run), "reward")
    assert (found.points, found.partial, text_of(found)) == (1, 1, "matches trainer log")


def test_a_number_that_no_sample_has_wholly_is_not_comparable(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    append(run / "rollout_data_rank_0.jsonl", b'{"step": 1, "prompt": "x", "response": "y"}\n')
    log(run, "reward", {1: 100.0})
    found = only(view_of(run), "reward")
    assert (text_of(found), found.points) == ("trainer log: not comparable", 0)


@pytest.mark.parametrize(
    ("facts", "verdict", "reason"),
    [
        ({"algo": "grpo", **ONE_PASS}, "differs", ""),
        ({}, "not comparable", "run.json does not say that the algorithm is GRPO"),
        ({"algo": "ppo"}, "not comparable", "only if the algorithm is GRPO"),
        ({"algo": "grpo", **ONE_PASS, "steps_per_generation": 2}, "not comparable", "on one whole rollout"),
        ({"algo": "grpo", **ONE_PASS, "processes": 2}, "differs", ""),
        ({"algo": "grpo", **ONE_PASS, "processes": 2, "versions": {"trl": "1.2"}}, "not comparable", "1.9"),
    ],
)
def test_another_number_of_the_trainer_is_not_called_a_difference(
    tmp_path: Path, facts: dict[str, Any], verdict: str, reason: str
) -> None:
    logged = rows_with_kl(tmp_path / "run", facts)
    log(tmp_path / "run", "kl", {1: logged * 2})
    view = view_of(tmp_path / "run")
    found = only(view, "kl_k3_micro")
    assert (found.verdict, reason in found.reason) == (verdict, True), found.reason
    assert drawn_over(view, ("kl_k3_micro",)) == (("log:kl",) if verdict == "differs" else ())


def test_equal_points_are_equal_even_if_the_algorithm_is_unknown(tmp_path: Path) -> None:
    logged = rows_with_kl(tmp_path / "run", {})
    log(tmp_path / "run", "kl", {1: logged})
    view = view_of(tmp_path / "run")
    assert text_of(only(view, "kl_k3_micro")) == "matches trainer log"
    assert comparisons(view, "kl_k1_pooled") == (), "it is known to be the other number"
    assert drawn_over(view, ("kl_k3_micro",)) == ("log:kl",)


def test_a_number_of_each_optimizer_step_is_compared_at_the_rollouts_first_step(tmp_path: Path) -> None:
    """With three passes, TRL logs the KL after one and two updates at the following steps."""
    facts = {"algo": "grpo", **ONE_PASS, "num_iterations": 3}
    logged = rows_with_kl(tmp_path / "run", facts)
    log(tmp_path / "run", "kl", {1: logged, 2: logged * 3, 3: logged * 4})
    found = only(view_of(tmp_path / "run"), "kl_k3_micro")
    assert (found.verdict, found.points) == ("equal", 1)


def test_a_mean_over_passes_is_not_compared_with_the_first_pass(tmp_path: Path) -> None:
    facts = {"algo": "grpo", **ONE_PASS, "num_iterations": 3, "logging_steps": 3}
    logged = rows_with_kl(tmp_path / "run", facts)
    log(tmp_path / "run", "kl", {3: logged * 2})
    assert only(view_of(tmp_path / "run"), "kl_k3_micro").verdict == "not comparable"


@pytest.mark.parametrize(("estimator", "curve"), [("k1", "log_ratio_sum"), ("k3", "kl_k3_sum")])
def test_the_estimator_decides_which_kl_the_trainer_logs(tmp_path: Path, estimator: str, curve: str) -> None:
    rows_with_kl(tmp_path / "run", {"kl_estimator": estimator})
    log(tmp_path / "run", "objective/kl", {1: 0.1})
    view = view_of(tmp_path / "run")
    assert only(view, curve).verdict == "differs"
    (other,) = {"log_ratio_sum", "kl_k3_sum"} - {curve}
    assert comparisons(view, other) == ()


def test_a_step_that_is_still_being_written_is_not_compared(tmp_path: Path) -> None:
    """A rank's rows may arrive after the trainer's log of the step."""
    run = write_run(tmp_path / "run", steps=2, samples=8)
    (run / "run.json").write_text('{"algo": "grpo"}')
    expected = means(run)
    append(run / "rollout_data_rank_0.jsonl", *(line(3, index=index) for index in range(4)))
    log(run, "reward", {1: expected[1], 2: expected[2], 3: 50.0})
    found = only(view_of(run), "reward")
    assert (found.verdict, found.points, found.partial) == ("equal", 2, 1)


def test_a_file_that_cannot_be_read_leaves_the_comparison_open(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ranks=2)
    (run / "run.json").write_text('{"algo": "grpo"}')
    log(run, "reward", means(run))
    assert only(view_of(run), "reward").verdict == "equal"
    (run / "rollout_data_rank_1.jsonl").rename(run / "rollout_data_rank_1.jsonl.zst")  # no such archive
    found = only(view_of(run), "reward")
    assert (found.verdict, found.reason) == ("not comparable", "some of the run's files cannot be read")


@pytest.mark.parametrize(
    "unfinished", [{"backlog_starts": {0: 4096}}, {"progress": Progress(10, 20, caught_up=True, halted=True)}]
)
def test_while_older_rows_are_missing_nothing_is_compared(tmp_path: Path, unfinished: dict[str, Any]) -> None:
    run = write_run(tmp_path / "run")
    log(run, "reward", means(run))
    view = view_of(run)
    assert comparisons(view, "reward") != ()
    assert comparisons(RunView(replace(view.snapshot, **unfinished)), "reward") == ()


def test_a_hostile_run_json_is_survived(tmp_path: Path) -> None:
    facts = {"algo": [1], "logging_steps": 10**400, "num_iterations": 10**30, "processes": {"a": []},
             "gradient_accumulation_steps": 1.5, "versions": {"trl": "9" * 6000}}  # fmt: skip
    logged = rows_with_kl(tmp_path / "run", facts)
    log(tmp_path / "run", "kl", {1: logged * 2})
    assert only(view_of(tmp_path / "run"), "kl_k3_micro").verdict == "not comparable"


def test_a_users_mean_of_a_column_is_compared_if_it_is_equal(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", char_len=7.0, words=2.0)
    log(run, "char_len_mean", dict.fromkeys((1, 2, 3), 7.0))
    log(run, "words_mean", dict.fromkeys((1, 2, 3), 5.0))
    view = view_of(run)
    assert only(view, "char_len").verdict == "equal"
    assert only(view, "words").verdict == "not comparable"


def test_standard_deviation_and_extremes_are_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "run.json").write_text(json.dumps({"algo": "grpo", "versions": {"trl": "1.0.0"}}))
    steps = view_of(run).snapshot.steps
    log(run, "reward_std", dict(zip([1, 2, 3], steps.std("reward"), strict=True)))
    log(run, "completions/max_length", {1: 0.0, 2: 0.0, 3: 0.0})
    view = view_of(run)
    assert [only(view, c).verdict for c in ("reward:std", "response_tokens:max")] == ["equal", "differs"]


def test_a_card_prefers_what_can_be_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1, valid_reward=0.5)
    log(run, "reward", {1: 40.0})
    log(run, "objective/scores", means(run))
    found = comparison_of(view_of(run), ("reward", "valid_reward"))
    assert found is not None
    assert (found.scalar, found.verdict) == ("objective/scores", "equal")


def test_a_log_with_a_nan_or_without_common_steps_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    expected = means(run)
    (run / "scalars.jsonl").write_text(
        f'{{"step": 1, "reward": NaN}}\n{{"step": 2, "reward": {expected[2]}}}\n{{"step": 90, "loss": 1}}\n'
    )
    found = only(view_of(run), "reward")
    assert (found.verdict, found.points) == ("equal", 1)
    (run / "scalars.jsonl").write_text('{"step": 80, "reward": 1.0}\n{"step": 81, "reward": 1.0}\n')
    assert comparisons(view_of(run), "reward") == ()


@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        (
            "ppo_run",
            {
                "objective/entropy", "objective/kl", "objective/non_score_reward", "objective/rlhf_reward",
                "objective/scores",
            },
        ),
        (
            "grpo_run",
            {
                "char_len_mean", "completions/clipped_ratio", "completions/max_length",
                "completions/mean_length", "completions/min_length", "reward", "reward_std",
                "rewards/format_reward/mean", "rewards/format_reward/std", "rewards/rhyme_reward/mean",
                "rewards/rhyme_reward/std", "rewards/zh_only_bonus/mean", "rewards/zh_only_bonus/std",
            },
        ),
    ],
)  # fmt: skip
def test_what_is_said_to_be_equal_is_equal_in_recorded_runs(
    name: str, scalars: set[str], request: pytest.FixtureRequest
) -> None:
    found = all_comparisons(view_of(request.getfixturevalue(name)))
    equal = {c.scalar for c in found if c.verdict == "equal" and c.points >= 59}
    assert equal == scalars
    assert all(np.isfinite(c.largest) for c in found)
    assert {c.scalar for c in found if c.verdict == "differs"} == set()
