"""Parallel coordinates: places of values on axes, the filter that a brush writes, and groups by a setting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlpanel.panels.runs.run_axes import axes_of, brushed, lines_of
from rlpanel.panels.runs.run_order import Choice, arrange, group_title, matching
from rlpanel.panels.runs.run_rows import FINE, RunRow, gpus_of


def row(name: str, reward: float | None = None, **settings: float | str | bool) -> RunRow:
    numbers = {} if reward is None else {"reward": reward}
    return RunRow(name, name, name, "finished", FINE, 0.0, numbers, settings)


ROWS = [
    row("a", 0.2, lr=1e-6, algo="grpo"),
    row("b", 0.4, lr=1e-5, algo="rloo"),
    row("c", 0.9, lr=1e-4, algo="grpo"),
    row("d", algo="ppo"),
]
NAMES = [("lr", "lr"), ("algo", "algo"), ("reward", "reward"), ("kl", "KL")]


def test_each_axis_places_its_values_and_what_is_not_known_is_left_out() -> None:
    axes = axes_of(ROWS, NAMES)
    assert [axis.name for axis in axes] == ["lr", "algo", "reward"]  # no run has kl
    assert [axis.is_log for axis in axes] == [True, False, False]
    places = lines_of(ROWS, axes)
    assert places["b"][0] == pytest.approx(0.5, abs=1e-3)
    assert places["d"][0] is None
    assert places["d"][2] is None
    assert places["c"][2] == 1.0
    assert axes[1].kinds == ("grpo", "ppo", "rloo")
    assert sorted({line[1] for line in places.values() if line[1] is not None}) == pytest.approx(
        [1 / 6, 3 / 6, 5 / 6], abs=1e-3
    )


def test_a_brush_keeps_the_runs_whose_lines_cross_it() -> None:
    axes = axes_of(ROWS, NAMES)
    for axis in axes:
        at = axes.index(axis)
        for low, high in ((0.0, 0.6), (0.45, 1.0), (0.1, 0.2)):
            text = brushed("", axis.name, axis.condition(low, high))
            places = {name: line[at] for name, line in lines_of(ROWS, axes).items()}
            crossed = {name for name, place in places.items() if place is not None and low <= place <= high}
            kept = {each.name for each in matching(ROWS, text, ROWS)} if text else set()
            assert kept == crossed, (axis.name, low, high, text)


def test_a_new_brush_replaces_the_one_on_its_axis_and_keeps_the_rest() -> None:
    text = brushed("reward > 0.1", "lr", "lr >= 1e-06 and lr <= 1e-05")
    text = brushed(text, "lr", "lr >= 1e-05 and lr <= 0.0001")
    assert text == "reward > 0.1 and lr >= 1e-05 and lr <= 0.0001"
    assert brushed(text, "lr", "") == "reward > 0.1"
    assert brushed('math "x', "lr", "lr >= 1") == 'run contains "math" and lr >= 1'


def test_runs_are_grouped_by_a_setting_with_the_error_of_the_mean() -> None:
    rows = [row(f"r{at}", value, lr=rate) for at, (value, rate) in enumerate(
        [(0.2, 3.0), (0.4, 3.0), (0.9, 1.0), (0.5, 3.0)]
    )]  # fmt: skip
    lines = arrange([*rows, row("x", 0.3)], Choice(group="lr")).lines
    heads = [line for line in lines if isinstance(line, dict)]
    assert [head["folder"] for head in heads] == ["lr = 1", "lr = 3", "lr: –"]
    assert [head["runs"] for head in heads] == [1, 3, 1]
    values = np.array([0.2, 0.4, 0.5])
    assert heads[1]["mean"] == f"{values.mean():.3f}"
    assert float(heads[1]["spread"]) == pytest.approx(values.std(ddof=1) / math.sqrt(3), rel=1e-2)
    assert "spread" not in heads[0]  # of one run, nothing is known of the spread
    closed = arrange(rows, Choice(group="lr", toggled=frozenset({group_title(rows[0], "lr")}))).lines
    assert [line for line in closed if isinstance(line, str)] == ["r2"]


@pytest.mark.parametrize(
    ("config", "gpus"),
    [
        ({}, None),
        ({"processes": 8.0}, 8.0),
        ({"trainer.n_gpus_per_node": 8.0, "trainer.nnodes": 2.0, "processes": 3.0}, 16.0),
        ({"num_gpus": True}, None),
        ({"n_gpus": "8"}, None),
    ],
)
def test_the_number_of_gpus_is_never_guessed(
    config: dict[str, float | str | bool], gpus: float | None
) -> None:
    assert gpus_of(config) == gpus
