"""The curve of a column: the numbers of `Run.steps` and of the board."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.plots.series import curve as board_curve
from rlpanel.panels.ui import theme
from tests.drawn import options_of
from tests.factories import append, line


@pytest.fixture
def run(grpo: rlpanel.Run) -> rlpanel.Run:
    return grpo


def test_the_line_is_the_mean_of_the_table_of_steps(run: rlpanel.Run) -> None:
    drawn = run.plot.curve("reward").get(1)
    np.testing.assert_array_equal(drawn["step"], run.steps["step"])
    np.testing.assert_array_equal(drawn["reward_mean"], run.steps["reward_mean"])
    np.testing.assert_array_equal(drawn["samples"], run.steps["samples"])


@pytest.mark.parametrize("band", ["std", "iqr", "range"])
def test_the_band_is_that_of_the_board(run: rlpanel.Run, band: str) -> None:
    drawn = run.plot.curve("kl_k3_mean", band=band).get(0)
    board = board_curve(run.view, "kl_k3_mean", Display(band=band))
    np.testing.assert_array_equal(drawn["kl_k3_mean_low"], board["lo"])
    np.testing.assert_array_equal(drawn["kl_k3_mean_high"], board["hi"])


def test_the_quartiles_are_those_of_the_run(run: rlpanel.Run) -> None:
    drawn = run.plot.curve("reward", band="iqr").get(0)
    low, _, high = run.quantiles("reward").to_numpy().T
    np.testing.assert_array_equal(drawn["reward_mean_low"], low)
    np.testing.assert_array_equal(drawn["reward_mean_high"], high)


@pytest.mark.parametrize(("name", "column"), [("pass_at_1", "pass_at_1"), ("reward:std", "reward_std")])
def test_a_number_per_step_has_a_line_without_band(run: rlpanel.Run, name: str, column: str) -> None:
    [drawn] = run.plot.curve(name)
    np.testing.assert_array_equal(drawn[name], run.steps[column])


def test_without_a_band_there_is_only_a_line(run: rlpanel.Run) -> None:
    assert len(run.plot.curve("reward", band="none")) == 1


def test_labels_and_colours_are_those_of_the_board(run: rlpanel.Run) -> None:
    for dark in (True, False):
        drawn = options_of(run.plot.curve("kl_k3_mean", dark=dark).get(1))
        assert drawn["ylabel"] == describe("kl_k3_mean").axis
        assert drawn["color"] == theme.palette(dark)["kl"]
    assert drawn["title"] == "couplets-grpo: KL k3, mean and quartiles (25–75%)"


def test_options_of_the_caller_come_first(run: rlpanel.Run) -> None:
    band, drawn = run.plot.curve("reward", width=333, color="#123456", line_dash="dotted", title="mine")
    options = options_of(drawn)
    assert (options["width"], options["title"]) == (333, "mine")
    assert (options["color"], options["line_dash"]) == ("#123456", "dotted")
    assert (options_of(band)["width"], options_of(band)["color"]) == (333, "#123456")


def test_a_long_run_has_points_of_several_steps_and_says_so(tmp_path: Path) -> None:
    append(tmp_path / "r.jsonl", *(line(step, tokens=False, reward=step) for step in range(1, 4002)))
    [drawn] = rlpanel.open_run(tmp_path, follow=False).plot.curve("reward", band="none")
    assert len(drawn) == 1001  # 4 steps each
    assert drawn["reward_mean"][0] == np.mean([1, 2, 3, 4])
    assert options_of(drawn)["title"].endswith("; each point is 4 steps")


def test_an_unknown_column_is_an_error_that_lists_the_others(run: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match=r"no numbers 'rewart' in couplets-grpo; available: .*reward"):
        run.plot.curve("rewart")


def test_an_unknown_band_is_an_error(run: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match="no band 'sigma'; available: iqr, std, se, range, none"):
        run.plot.curve("reward", band="sigma")
