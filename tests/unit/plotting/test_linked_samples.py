"""A selection in one plot is seen in the others."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
import pytest
from holoviews.streams import SelectionXY

import rlpanel
from rlpanel.plotting import plotted_run
from rlpanel.plotting.plotted_run import GROUP, SAMPLE, sample_table

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    """HoloViews fails, though without effect, if links are freed only when Python ends."""
    yield
    gc.collect()


@pytest.fixture
def run(grpo: rlpanel.Run) -> rlpanel.Run:
    return grpo


def selected(plot: Any, links: Any, expression: Any) -> list[Any]:
    """Return the elements of the selected samples, after a selection like that of a box."""
    linked = links(plot)
    hv.render(linked)
    links.selection_expr = expression
    return [list(each[()]) for each in elements(linked)]


def elements(plot: Any) -> Iterator[Any]:
    """Return the dynamic maps of a layout."""
    if isinstance(plot, hv.Layout):
        for each in plot:
            yield from elements(each)
    else:
        yield plot


def of_type(found: list[Any], kind: type) -> list[Any]:
    return [each for each in found if type(each) is kind]


def test_steps_chosen_in_the_curve_are_the_samples_of_the_others(run: rlpanel.Run) -> None:
    plot = run.plot
    layout = (
        plot.curve("reward", band="none")
        + plot.distribution("reward")
        + plot.scatter("response_tokens", "reward")
    )
    chosen = (hv.dim("step") >= 10) & (hv.dim("step") <= 12)
    _, histogram, points = selected(layout, hv.link_selections.instance(), chosen)
    samples = run.samples().query("10 <= step <= 12")
    drawn = of_type(points, hv.Points)[-1]
    np.testing.assert_array_equal(drawn["response_tokens"], samples.response_tokens)
    counts = of_type(histogram, hv.Histogram)[-1].dimension_values(1)
    assert counts.sum() == len(samples) == 192
    whole = of_type(histogram, hv.Histogram)[0].dimension_values(1)
    assert whole.sum() == 3840


def test_a_box_in_the_scatter_plot_gives_the_means_of_its_samples(run: rlpanel.Run) -> None:
    plot = run.plot
    layout = plot.scatter("response_tokens", "reward") + plot.curve("kl_k3_mean", band="std")
    box = (hv.dim("response_tokens") > 14) & (hv.dim("reward") >= 1)
    _, curve = selected(layout, hv.link_selections.instance(), box)
    lines = of_type(curve, hv.Curve)
    samples = run.samples().query("response_tokens > 14 and reward >= 1").groupby("step").kl_k3_mean
    steps = pd.Index(lines[-1]["step"].astype(int))
    np.testing.assert_allclose(lines[-1]["kl_k3_mean"], samples.mean().reindex(steps), rtol=1e-9)
    np.testing.assert_array_equal(lines[0]["kl_k3_mean"], run.steps.kl_k3_mean)
    band = of_type(curve, hv.Area)[-1]
    high = np.minimum(samples.mean() + samples.std(), samples.max()).reindex(steps)
    np.testing.assert_allclose(band["kl_k3_mean_high"], high, rtol=1e-9)


@pytest.mark.parametrize(("band", "low"), [("range", 0.0), ("iqr", 0.25)])
def test_the_band_of_a_selection_is_of_its_samples(run: rlpanel.Run, band: str, low: float) -> None:
    plot = run.plot
    layout = plot.distribution("response_tokens") + plot.curve("reward", band=band)
    _, curve = selected(layout, hv.link_selections.instance(), hv.dim("response_tokens") > 14)
    samples = run.samples().query("response_tokens > 14").groupby("step").reward
    drawn = of_type(curve, hv.Area)[-1]
    wanted = samples.quantile(low).reindex(drawn["step"].astype(int))
    np.testing.assert_allclose(drawn["reward_mean_low"], wanted, rtol=1e-9)


def test_ridges_show_the_share_of_the_selection(run: rlpanel.Run) -> None:
    layout = run.plot.ridge("reward") + run.plot.distribution("reward")
    ridge, _ = selected(layout, hv.link_selections.instance(), hv.dim("reward") > 1)
    areas = of_type(ridge, hv.Area)
    assert len(areas) == 14
    for whole, part in zip(areas[::2], areas[1::2], strict=True):
        height, inside = (area["top"] - area["base"] for area in (whole, part))
        np.testing.assert_allclose(inside[whole["reward"] > 1.1], height[whole["reward"] > 1.1])
        assert not inside[whole["reward"] < 0.9].any()


def test_a_number_per_step_does_not_hinder_a_selection(run: rlpanel.Run) -> None:
    layout = run.plot.distribution("reward") + run.plot.curve("pass_at_1")
    _, curve = selected(layout, hv.link_selections.instance(), hv.dim("reward") > 1)
    np.testing.assert_array_equal(of_type(curve, hv.Curve)[-1]["pass_at_1"], run.steps.pass_at_1)


def test_a_large_table_has_only_the_columns_of_its_plot(
    run: rlpanel.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run.snapshot.alive_rows
    assert len(sample_table(run.view, rows, ["reward"]).vdims) > 20
    monkeypatch.setattr(plotted_run, "LINKED_VALUES", 1000)
    assert [each.name for each in sample_table(run.view, rows, ["reward"]).dimensions()] == [
        *("step", "rank", GROUP, SAMPLE),
        "reward",
    ]


def drag_box(links: Any, kind: type, column: str, left: float, right: float) -> None:
    """Drag a box from left to right over the elements of a kind that show a column."""
    for element, expressions in links._selection_expr_streams.items():
        if type(element) is kind and column in map(str, element.dimensions()):
            for stream in expressions.history_stream.input_stream.input_streams:
                if isinstance(stream, SelectionXY):
                    box = (left, -100.0, right, 100.0)
                    stream.event(bounds=box, x_selection=(left, right), y_selection=(box[1], box[3]))


def test_a_box_in_the_groups_selects_their_samples(run: rlpanel.Run) -> None:
    layout = run.plot.groups(60) + run.plot.scatter("response_tokens", "reward") + run.plot.curve("reward")
    links = hv.link_selections.instance()
    linked = links(layout)
    hv.render(linked)
    for kind in (hv.Segments, hv.Scatter):  # a box in a browser reaches both
        drag_box(links, kind, "position", 0.5, 3.5)
    groups, points, curve = [list(each[()]) for each in elements(linked)]
    chosen = run.groups(60).sort_values("reward_mean", kind="stable")[:3]
    assert of_type(groups, hv.Scatter)[-1]["name"].tolist() == chosen.group.tolist()
    samples = run.samples(60).query("group in @chosen.group")
    assert len(samples) == 24
    drawn = of_type(points, hv.Points)[-1]
    np.testing.assert_array_equal(drawn["reward"], samples.reward)
    line = of_type(curve, hv.Curve)[-1]
    at_last = line.dimension_values(1)[line["step"] == 60]
    np.testing.assert_allclose(at_last, samples.reward.mean())


def test_groups_show_the_rewards_of_the_selected_samples(run: rlpanel.Run) -> None:
    layout = run.plot.groups(60) + run.plot.scatter("response_tokens", "reward", 60)
    groups, _ = selected(layout, hv.link_selections.instance(), hv.dim("response_tokens") > 13)
    samples = run.samples(60).query("response_tokens > 13").groupby("group").reward
    marks, segments = of_type(groups, hv.Scatter)[-1], of_type(groups, hv.Segments)[-1]
    names = marks["name"].tolist()
    assert 0 < len(names) == samples.ngroups <= 8
    np.testing.assert_allclose(marks["reward_mean"], samples.mean()[names])
    np.testing.assert_array_equal(segments["reward_max"], samples.max()[names])
    np.testing.assert_array_equal(marks["samples"], samples.size()[names])
    places = run.groups(60).sort_values("reward_mean", kind="stable").group.tolist()
    assert [places[int(place) - 1] for place in marks["position"]] == names


def test_a_box_in_the_tokens_selects_their_sample(run: rlpanel.Run) -> None:
    sample = run.samples(60).iloc[5]
    layout = run.plot.tokens(sample.uid) + run.plot.scatter("response_tokens", "reward", 60)
    links = hv.link_selections.instance()
    linked = links(layout)
    hv.render(linked)
    for kind in (hv.Spikes, hv.Scatter):
        drag_box(links, kind, "position", 2, 4)
    tokens, points = [list(each[()]) for each in elements(linked)]
    drawn = of_type(points, hv.Points)[-1]
    assert (drawn["reward"].tolist(), drawn["response_tokens"].tolist()) == (
        [sample.reward],
        [sample.response_tokens],
    )
    assert len(of_type(tokens, hv.Scatter)[-1]) == sample.response_tokens


@pytest.mark.parametrize("passes", [True, False])
def test_tokens_are_shown_if_their_sample_is_selected(run: rlpanel.Run, passes: bool) -> None:
    sample = run.samples(60).iloc[5]
    layout = run.plot.tokens(sample.uid) + run.plot.scatter("response_tokens", "reward", 60)
    inside = hv.dim("reward") >= sample.reward if passes else hv.dim("reward") > sample.reward
    tokens, _ = selected(layout, hv.link_selections.instance(), inside)
    assert len(of_type(tokens, hv.Scatter)[-1]) == (sample.response_tokens if passes else 0)
    assert len(of_type(tokens, hv.Spikes)[-1]) == (sample.response_tokens if passes else 0)
