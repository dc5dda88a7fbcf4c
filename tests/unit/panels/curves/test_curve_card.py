"""Texts of a curve card."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.panels.curves.curve_card import CurveCard
from rlpanel.panels.curves.curve_selection import Curve
from rlpanel.panels.plots.series import POINTS
from rlpanel.panels.session.context import Context
from rlpanel.settings import Display
from tests.factories import write_run


def subtitle(run: Path, band: str) -> str:
    context = Context(view=rlpanel.open_run(run, follow=False).view, display=Display(band=band))
    export = CurveCard(context, Curve("reward", "Reward", ("reward",))).export()
    assert export is not None
    return export.words


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (POINTS, "mean, IQR, by step"),
        (POINTS + 1, "mean, lowest to highest quartile of its steps, 2 steps per point, by step"),
    ],
)
def test_the_band_of_points_of_several_steps_is_not_called_their_quartiles(
    tmp_path: Path, steps: int, words: str
) -> None:
    run = write_run(tmp_path / "run", steps=steps, samples=1, tokens=False)
    assert subtitle(run, "iqr") == f"{words}, run"


def test_the_range_of_several_steps_is_that_of_their_samples(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=POINTS + 1, samples=1, tokens=False)
    assert subtitle(run, "range") == "mean, min–max, 2 steps per point, by step, run"
