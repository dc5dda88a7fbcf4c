"""The ridges of a column: those of the board."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rlpanel
from rlpanel.panels.plots.plot_elements import REACH, ridges
from rlpanel.store.snapshot.value_density import density
from tests.drawn import options_of
from tests.factories import write_run


def test_ridges_are_those_of_the_board(grpo: rlpanel.Run) -> None:
    counted = density(grpo.snapshot, "kl_k3_mean", log=False)
    assert counted is not None
    board = ridges(counted)
    drawn = grpo.plot.ridge("kl_k3_mean")
    assert len(drawn) == len(board.heights) == 7
    for ridge, area in enumerate(drawn):
        np.testing.assert_array_equal(area["kl_k3_mean"], board.values)
        np.testing.assert_allclose((area["top"] - area["base"]) / REACH, board.heights[ridge], atol=1e-15)
    ticks = dict(options_of(drawn.get(0))["yticks"])
    assert ticks[0] == f"{board.first[0]}–{board.last[0]}"


def test_a_run_of_one_step_has_one_ridge(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=1), follow=False)
    [drawn] = run.plot.ridge("reward")
    assert options_of(drawn)["yticks"] == [(0, "1")]
    assert "8 samples" in options_of(drawn)["title"]
