"""Texts of a curve card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bokeh.models import VArea

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.panels.curves.curve_bar import Curve
from rlpanel.panels.curves.curve_card import CurveCard
from rlpanel.panels.curves.curve_plot import CurveWindow
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.card_export import CardHead
from rlpanel.panels.plots.series import POINTS
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import MarkedSteps
from tests.factories import append, line, write_run
from tests.page_parts import part_of, send


def subtitle(run: Path, **display: object) -> str:
    context = Context(view=rlpanel.open_run(run, follow=False).view, display=Display(**display))
    export = CurveCard(context, Curve("reward", "Reward", ("reward",))).export()
    assert export is not None
    return export.words


@pytest.mark.parametrize(("steps", "more"), [(POINTS, ""), (POINTS + 1, "2 steps per point, ")])
def test_the_head_says_that_the_band_holds_the_middle_half(tmp_path: Path, steps: int, more: str) -> None:
    run = write_run(tmp_path / "run", steps=steps, samples=1, tokens=False)
    assert subtitle(run) == f"mean, 25–75%, {more}by step, run"


def test_the_range_of_several_steps_is_that_of_their_samples(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=POINTS + 1, samples=1, tokens=False)
    assert subtitle(run, band="range") == "mean, min–max, 2 steps per point, by step, run"


@pytest.mark.parametrize(("change", "alpha"), [(0.001, 0.16 / 3), (1.0, 0.16)])
def test_a_band_that_fills_the_plot_is_faded(tmp_path: Path, change: float, alpha: float) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lines = (
        line(step, index=at, tokens=False, reward=sign + change * step)
        for step in range(4)
        for at, sign in enumerate((1.0, 0.6, 0.2, -0.2, -0.6, -1.0))
    )
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    band = card(folder, "reward").plot.figure.select_one(VArea)
    assert band.fill_alpha == pytest.approx(alpha)


def test_a_legend_does_not_cover_the_lines(tmp_path: Path) -> None:
    plot = card(write_run(tmp_path / "run", tokens=False), "reward", "ref_reward").plot.figure
    assert [legend in plot.above for legend in plot.legend] == [True]


def card(
    run: Path, *columns: str, log: bool = False, window: CurveWindow | None = None, **display: object
) -> CurveCard:
    context = Context(view=rlpanel.open_run(run, follow=False).view, display=Display(**display))
    return CurveCard(context, Curve(columns[0], "Title", columns, log), window)


def test_the_band_stays_within_the_values_of_the_step(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=4, samples=8)
    drawn = card(run, "kl_k3_mean", band="std").plot.sources["kl_k3_mean"].data
    shown = {name: np.asarray(drawn[name]) for name in ("lo", "hi")}
    assert (shown["lo"] >= 0).all(), "a KL k3 is never negative"
    values = rlpanel.open_run(run, follow=False).samples().groupby("step").kl_k3_mean
    assert shown["lo"].tolist() == pytest.approx(
        [max(group.mean() - group.std(), group.min()) for _, group in values]
    )
    assert shown["hi"].tolist() == pytest.approx(
        [min(group.mean() + group.std(), group.max()) for _, group in values]
    )


def test_the_axis_follows_the_line_and_the_zoom(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for step in range(30):
        append(run / "rollout_data_rank_0.jsonl", line(step, reward=float(step), tokens=False))
    window = CurveWindow()
    shown = card(run, "reward", window=window)
    whole = shown.plot.figure.y_range.start, shown.plot.figure.y_range.end
    assert whole[0] < 0 < 29 < whole[1]
    window.zoomed = (10.0, 12.0)
    shown.fit()
    assert 9 < shown.plot.figure.y_range.start < 10
    assert 12 < shown.plot.figure.y_range.end < 13
    assert not shown.is_whole
    window.zoomed = (-1.0, 40.0)
    assert shown.is_whole


def test_a_logarithmic_card_draws_only_values_above_zero(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for step, reward in enumerate((-1.0, 0.0, 0.001, 100.0)):
        for index in range(3):
            append(run / "rollout_data_rank_0.jsonl", line(step, index=index, reward=reward, tokens=False))
    shown = card(run, "reward", log=True)
    assert np.isnan(shown.plot.sources["reward"].data["y"]).tolist() == [True, True, False, False]
    assert 0 < shown.plot.figure.y_range.start < 0.001
    assert shown.plot.figure.y_range.end > 100
    export = shown.export()
    assert export is not None
    assert "log scale" in export.words


def test_the_menu_switches_the_scale(tmp_path: Path) -> None:
    shown = card(write_run(tmp_path / "run", tokens=False), "reward")
    menu = part_of(shown.card, CardHead)
    assert menu.entries == ["Log scale", "Copy as Python"]
    send(menu, "Log scale")
    assert shown.context.selection.log_curves == ["reward"]
    logarithmic = CurveCard(shown.context, Curve("reward", "Reward", ("reward",), log=True))
    send(part_of(logarithmic.card, CardHead), "Linear scale")
    assert shown.context.selection.log_curves == []


def test_a_curve_is_shaded_by_its_own_finding_unless_one_is_opened(tmp_path: Path) -> None:
    shown = card(write_run(tmp_path / "run", steps=5, tokens=False), "reward")
    context = shown.context
    context.shaded_by_column = {"reward": MarkedSteps((2,), "bad"), "other": MarkedSteps((3,), "bad")}
    shown.shade()
    assert shown.plot.shading.edges[0].tolist() == [1.5]
    context.shaded_steps = MarkedSteps((4, 5), "kl")
    shown.shade()
    assert shown.plot.shading.edges[0].tolist() == [3.5]


@pytest.mark.parametrize(("steps", "drawn"), [(1, False), (2, True)])
def test_a_run_of_one_step_has_a_value_and_no_plot(tmp_path: Path, steps: int, drawn: bool) -> None:
    run = write_run(tmp_path / "run", steps=steps, samples=4, tokens=False)
    context = Context(view=rlpanel.open_run(run, follow=False).view)
    assert CurveCard(context, Curve("reward", "Reward", ("reward",))).pane.visible is drawn


@pytest.mark.parametrize(("steps", "drawn"), [(1, False), (2, True)])
def test_band_zoom_and_room_of_plots_stand_only_where_plots_are(
    tmp_path: Path, steps: int, drawn: bool
) -> None:
    run = write_run(tmp_path / "run", steps=steps, samples=4, tokens=False)
    curves = Curves(Context(view=rlpanel.open_run(run, follow=False).view))
    assert curves.bar.plots is drawn
    assert ("rl-plain" in curves.row.css_classes) is not drawn
