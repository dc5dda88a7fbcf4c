"""The trainer's scalars among the curves: points, and differences from rlpanel's metrics."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.metrics.engine.trainer_names import column_of
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_selection import curves_of
from rlpanel.panels.session.context import Context
from rlpanel.settings import Display, Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run


def text_of(difference: trainer_scalars.ScalarDifference) -> str:
    """The label as it is read, without markup."""
    return re.sub("<[^>]*>", "", difference.html)


def run_with_log(folder: Path, *, off: float = 0.0) -> tuple[Snapshot, pd.Series]:
    """A run whose trainer logged the reward's mean, ``off`` by so much at step 2; and that mean by pandas."""
    run = write_run(folder / "run", steps=3)
    rows = [json.loads(text) for path in sorted(run.iterdir()) for text in path.read_text().splitlines()]
    means = pd.DataFrame(rows).groupby("step")["reward"].mean()
    for step, mean in means.items():
        entry = {"step": step, "reward": mean + off * (step == 2), "loss": 1.0 / step, "kl": 0.1}
        append(run / "scalars.jsonl", json.dumps(entry).encode() + b"\n")
    return snapshot_of(run), means


def snapshot_of(run: Path) -> Snapshot:
    index = RunIndex(run, "run", Reading())
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def test_a_scalar_is_drawn_without_a_band(tmp_path: Path) -> None:
    points = trainer_scalars.points(RunView(run_with_log(tmp_path)[0]), "log:loss", Display())
    assert (points["x"].tolist(), points["y"].tolist()) == ([1, 2, 3], [1.0, 0.5, 1 / 3])
    assert np.isnan([points["lo"], points["hi"]]).all()


def test_a_nan_is_a_gap_and_many_steps_are_gathered(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    append(run / "rank_0.jsonl", line(1))
    values = [float("nan") if step == 7 else float(step) for step in range(4000)]
    append(
        run / "scalars.jsonl",
        *(json.dumps({"step": step, "loss": value}).encode() + b"\n" for step, value in enumerate(values)),
    )
    points = trainer_scalars.points(RunView(snapshot_of(run)), "log:loss", Display())
    expected = pd.Series(values).groupby(np.arange(4000) // 2).mean()
    np.testing.assert_allclose(points["y"], expected)


def test_a_scalar_that_equals_a_column_is_drawn_over_its_curve(tmp_path: Path) -> None:
    snapshot, _ = run_with_log(tmp_path)
    cards = {card.key: card.columns for card in curves_of(Context(view=RunView(snapshot)))}
    assert cards["reward"][-1] == "log:reward"
    assert not [column for key in cards if key != "reward" for column in cards[key] if "log:" in column]


@pytest.mark.parametrize(
    ("off", "words"), [(0.0, "matches trainer log"), (0.25, "differs from trainer log by 0.25")]
)
def test_the_head_tells_how_far_the_log_is_from_the_rows(tmp_path: Path, off: float, words: str) -> None:
    snapshot, _ = run_with_log(tmp_path, off=off)
    found = trainer_scalars.difference(RunView(snapshot), ("log:reward",))
    assert found is not None
    assert found.largest == pytest.approx(off, abs=1e-12)
    assert (text_of(found), found.step if off else 2) == (words, 2)


def test_a_step_whose_samples_lack_the_number_in_part_is_not_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    bare = json.dumps({"step": 2, "prompt": "x", "response": "y"}).encode() + b"\n"
    append(run / "rollout_data_rank_0.jsonl", bare)
    rows = [json.loads(text) for path in sorted(run.iterdir()) for text in path.read_text().splitlines()]
    mean = pd.DataFrame(rows).query("step == 1").reward.mean()
    for step, logged in ((1, mean), (2, 100.0)):
        append(run / "scalars.jsonl", json.dumps({"step": step, "reward": logged}).encode() + b"\n")
    found = trainer_scalars.difference(RunView(snapshot_of(run)), ("log:reward",))
    assert found is not None
    assert (found.steps, found.partial, text_of(found)) == (1, 1, "matches trainer log")


def test_a_curve_gives_its_value_and_the_one_before(tmp_path: Path) -> None:
    snapshot, means = run_with_log(tmp_path)
    assert trainer_scalars.values(RunView(snapshot), "log:loss", 2) == (0.5, 1.0)
    assert trainer_scalars.values(RunView(snapshot), "reward", 2) == pytest.approx((means[2], means[1]))
    np.testing.assert_equal(trainer_scalars.values(RunView(snapshot), "log:loss", 9), (np.nan, np.nan))


def test_the_menu_offers_every_scalar(tmp_path: Path) -> None:
    snapshot, _ = run_with_log(tmp_path)
    assert list(trainer_scalars.options(snapshot).values()) == ["log:kl", "log:loss", "log:reward"]


def test_a_name_that_means_three_numbers_equals_none() -> None:
    assert [column_of(name) for name in ("kl", "entropy", "rewards/format/mean", "objective/kl")] == [
        None,
        None,
        "rewards/format",
        "log_ratio_sum",
    ]
    assert [column_of("kl", algorithm) for algorithm in ("grpo", "rloo", "ppo")] == [
        "kl_k3_micro",
        "kl_k1_pooled",
        None,
    ]


def test_a_step_metric_is_compared_where_the_run_says_its_trainer(tmp_path: Path) -> None:
    """Two micro-batches of one sample: k3 of a log-ratio of 1 a token is e^-1, of 0 it is 0."""
    (tmp_path / "run.json").write_text(json.dumps({"algo": "grpo"}))
    rows = [
        {"step": 1, "prompt": "p", "logprobs": [-1.0] * n, "ref_logprobs": [-1.0 - d] * n, "micro_batch": m}
        for m, (n, d) in enumerate([(3, 1.0), (1, 0.0)])
    ]
    append(tmp_path / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    (tmp_path / "scalars.jsonl").write_text(json.dumps({"step": 1, "kl": math.exp(-1) / 2}) + "\n")
    snapshot = snapshot_of(tmp_path)
    found = trainer_scalars.difference(RunView(snapshot), ("log:kl",))
    assert found is not None
    assert (found.steps, text_of(found)) == (1, "matches trainer log")
    assert trainer_scalars.matching_scalars(RunView(snapshot), ("kl_k3_micro",)) == ("log:kl",)


@pytest.mark.parametrize(("name", "pairs"), [("ppo_run", 5), ("grpo_run", 6)])
def test_what_is_said_to_be_equal_is_equal_in_recorded_runs(
    name: str, pairs: int, request: pytest.FixtureRequest
) -> None:
    snapshot = snapshot_of(request.getfixturevalue(name))
    scalars = [scalar for scalar in snapshot.scalars.names if column_of(scalar)]
    found = [trainer_scalars.difference(RunView(snapshot), (f"log:{scalar}",)) for scalar in scalars]
    assert len(found) == pairs
    assert all(one is not None and one.steps + one.partial == 60 for one in found)
    assert all(one is not None and one.steps >= 59 and text_of(one) == "matches trainer log" for one in found)
