"""A selection in one plot is seen in the others."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.plotting import linked_samples
from rlpanel.plotting.linked_samples import sample_table


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    """HoloViews fails, though without effect, if links are freed only when Python ends."""
    yield
    gc.collect()


@pytest.fixture
def run(grpo_run: Path) -> rlpanel.Run:
    return rlpanel.open_run(grpo_run, follow=False)


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
    layout = plot.scatter("response_tokens", "reward") + plot.curve("kl_k3_mean")
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
    monkeypatch.setattr(linked_samples, "LINKED_VALUES", 1000)
    assert [each.name for each in sample_table(run.view, rows, ["reward"]).dimensions()] == [
        "step",
        "rank",
        "reward",
    ]
