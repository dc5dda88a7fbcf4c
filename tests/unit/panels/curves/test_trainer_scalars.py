"""The trainer's scalars among the curves: points, and differences from rlpanel's metrics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.display_settings import Display
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_bar import curves_of
from rlpanel.panels.session.context import Context
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run


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


def test_a_curve_gives_its_values_and_the_place_of_a_step(tmp_path: Path) -> None:
    snapshot, means = run_with_log(tmp_path)
    logged, at = trainer_scalars.values(RunView(snapshot), "log:loss", 2)
    assert (logged[at], logged[at - 1]) == (0.5, 1.0)
    ours, at = trainer_scalars.values(RunView(snapshot), "reward", 2)
    assert ours[at] == pytest.approx(means[2])
    assert trainer_scalars.values(RunView(snapshot), "log:loss", 9)[1] == -1


def test_the_menu_offers_every_scalar(tmp_path: Path) -> None:
    snapshot, _ = run_with_log(tmp_path)
    assert list(trainer_scalars.options(snapshot).values()) == ["log:kl", "log:loss", "log:reward"]


@pytest.mark.parametrize(
    ("name", "curve"),
    [
        ("reward_std", "reward:std"),
        ("completions/mean_length", "response_tokens"),
        ("log:reward", "log:reward"),
        ("reward", "reward"),
        ("kl", "kl"),
    ],
)
def test_a_trainers_name_leads_to_the_runs_number(name: str, curve: str, tmp_path: Path) -> None:
    assert trainer_scalars.resolve(RunView(run_with_log(tmp_path)[0]), name) == curve


def test_a_name_of_several_numbers_leads_to_the_one_that_the_run_logs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    for estimator, curve in (("k1", "log_ratio_sum"), ("k3", "kl_k3_sum")):
        (run / "run.json").write_text(json.dumps({"kl_estimator": estimator}))
        assert trainer_scalars.resolve(RunView(snapshot_of(run)), "objective/kl") == curve


def test_a_column_of_the_run_comes_before_a_trainers_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", reward_std=0.25)
    assert trainer_scalars.resolve(RunView(snapshot_of(run)), "reward_std") == "reward_std"


def test_a_statistic_is_a_curve_without_a_band(tmp_path: Path) -> None:
    snapshot, _ = run_with_log(tmp_path)
    points = trainer_scalars.points(RunView(snapshot), "reward:std", Display())
    np.testing.assert_allclose(points["y"], snapshot.steps.std("reward"))
    assert np.isnan([points["lo"], points["hi"]]).all()
