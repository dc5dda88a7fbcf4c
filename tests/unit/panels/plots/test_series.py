"""Curves as points, and the small updates when they grow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from hypothesis import given
from hypothesis import strategies as st

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.panels.plots import series
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append, line, write_run


def points(values: list[float]) -> series.Points:
    y = np.array(values, float)
    x = np.arange(len(y), dtype=float)
    return {"x": x, "y": y, "lo": y - 1, "hi": y + 1, "n": np.ones(len(y))}


def raw(run: Path) -> pd.DataFrame:
    return pd.DataFrame(
        json.loads(line) for path in run.glob("*.jsonl") for line in path.read_text().splitlines()
    )


def test_a_curve_is_mean_and_deviation_by_step(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=[5, 1, 30], ranks=2, samples=4)
    made = series.curve(rlpanel.open_run(run, follow=False).view, "reward", Display(band="std"))
    wanted = raw(run).groupby("step").reward.agg(["mean", "std", "count"])
    assert made["x"].tolist() == wanted.index.tolist() == [1, 5, 30]
    np.testing.assert_allclose(made["y"], wanted["mean"])
    np.testing.assert_allclose(made["hi"], wanted["mean"] + wanted["std"])
    np.testing.assert_allclose(made["lo"], wanted["mean"] - wanted["std"])


def test_a_step_metric_is_a_curve_without_a_band(tmp_path: Path) -> None:
    snapshot = rlpanel.open_run(write_run(tmp_path / "run", steps=3), follow=False).snapshot
    made = series.curve(RunView(snapshot), "win_share", Display())
    frame = raw(tmp_path / "run")
    wanted = (frame.reward > frame.ref_reward).groupby(frame.step).mean()
    np.testing.assert_allclose(made["y"], wanted)
    assert np.isnan(made["lo"]).all()


@pytest.mark.parametrize(
    ("band", "low", "high"),
    [
        ("range", lambda g: g.min(), lambda g: g.max()),
        ("iqr", lambda g: g.quantile(0.25), lambda g: g.quantile(0.75)),
    ],
)
def test_other_bands(tmp_path: Path, band: str, low: object, high: object) -> None:
    run = write_run(tmp_path / "run", steps=3, samples=8)
    made = series.curve(rlpanel.open_run(run, follow=False).view, "reward", Display(band=band))
    groups = raw(run).groupby("step").reward
    np.testing.assert_allclose(made["lo"], low(groups))
    np.testing.assert_allclose(made["hi"], high(groups))


def test_zero_shift_and_variance_scaling(tmp_path: Path) -> None:
    snapshot = rlpanel.open_run(write_run(tmp_path / "run"), follow=False).snapshot
    plain = series.curve(RunView(snapshot), "reward", Display(band="std"))
    turned = series.curve(
        RunView(snapshot), "reward", Display(band="std", zero_shift=True, variance_scale=0.5)
    )
    np.testing.assert_allclose(turned["y"], plain["y"] - plain["y"][0])
    np.testing.assert_allclose(turned["hi"] - turned["y"], (plain["hi"] - plain["y"]) / 2)


def test_a_long_run_is_gathered_into_buckets_that_pool_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "POINTS", 4)
    run = write_run(tmp_path / "run", steps=10, samples=3)
    view = rlpanel.open_run(run, follow=False).view
    made = series.curve(view, "reward", Display(band="std"))
    frame = raw(run)
    pooled = frame.groupby((frame.step - 1) // 4).reward
    np.testing.assert_allclose(made["y"], pooled.mean())
    np.testing.assert_allclose(made["hi"] - made["y"], pooled.std())
    quartiles = series.curve(view, "reward", Display(band="iqr"))
    np.testing.assert_allclose(quartiles["lo"], pooled.quantile(0.25))
    np.testing.assert_allclose(quartiles["hi"], pooled.quantile(0.75))


def test_a_few_extreme_values_do_not_widen_the_default_band(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for index in range(16):
        append(
            run / "rollout_data_rank_0.jsonl", line(1, index=index, reward=1e6 if index > 12 else index % 2)
        )
    made = series.curve(rlpanel.open_run(run, follow=False).view, "reward", Display())
    assert (made["lo"].tolist(), made["hi"].tolist()) == ([0.0], [1.0])


def view_of(folder: Path, rewards: list[list[float]]) -> RunView:
    """Return the view of a run with these rewards in each step."""
    folder.mkdir()
    lines = [
        line(step, index=index, reward=reward, tokens=False)
        for step, of_step in enumerate(rewards, 1)
        for index, reward in enumerate(of_step)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False).view


def test_few_values_get_two_standard_errors_and_no_bar_code(tmp_path: Path) -> None:
    rewards = [[float(index < won) for index in range(16)] for won in (3, 4, 5, 11, 12)]
    view = view_of(tmp_path / "run", rewards)
    assert [series.band_of(view, "reward", band) for band in ("auto", "iqr")] == ["se", "se"]
    made = series.curve(view, "reward", Display(), series.band_of(view, "reward", "auto"))
    for at, of_step in enumerate(rewards):
        mean, error = np.mean(of_step), np.std(of_step, ddof=1) / np.sqrt(16)
        assert made["lo"][at] == pytest.approx(max(0.0, mean - 2 * error))
        assert made["hi"][at] == pytest.approx(min(1.0, mean + 2 * error))


def test_rewards_of_nearly_0_and_1_get_two_standard_errors_and_a_heavy_tail_does_not(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    near = [[float(at < won) - 0.01 * chance.random() for at in range(16)] for won in (3, 4, 11, 12)]
    assert series.band_of(view_of(tmp_path / "near", near), "reward", "auto") == "se"
    tail = [[*chance.random(39).tolist(), 100.0] for _ in range(4)]
    assert series.band_of(view_of(tmp_path / "tail", tail), "reward", "auto") == "iqr"


@pytest.mark.parametrize(("samples", "band"), [(63, "iqr"), (64, "density")])
def test_a_continuous_reward_of_many_samples_is_a_density(tmp_path: Path, samples: int, band: str) -> None:
    values = np.random.default_rng(0).normal(size=(2, samples)).tolist()
    view = view_of(tmp_path / "run", values)
    assert series.band_of(view, "reward", "auto") == band
    assert series.band_of(view, "response_chars", "auto") in ("iqr", "se"), "only rewards"
    assert series.band_of(view, "reward", "std") == "std"
    assert series.band_of(view, "reward", "iqr") == "iqr"


@given(st.lists(st.floats(-5, 5), max_size=12), st.lists(st.floats(-5, 5), max_size=12))
def test_whatever_was_sent_the_source_ends_at_the_points(before: list[float], after: list[float]) -> None:
    source = ColumnDataSource(points([]))
    series.update_source(source, points(before), None)
    series.update_source(source, points(after), points(before))
    assert list(source.data["y"]) == after


def test_a_step_more_is_a_patch_and_a_stream() -> None:
    source = ColumnDataSource(points([]))
    document, events = Document(), []
    document.add_root(source)
    series.update_source(source, points([1.0, 2.0]), None)
    document.on_change(lambda event: events.append(type(event).__name__))
    series.update_source(source, points([1.0, 2.5, 3.0]), points([1.0, 2.0]))
    assert events == ["ColumnsPatchedEvent", "ColumnsStreamedEvent"]
