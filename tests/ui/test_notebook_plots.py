"""Plots of a run in JupyterLab: they are drawn, and a box in one selects samples in the others.

``RLPANEL_SHOTS=1`` writes a screenshot into ``docs/images``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import rlpanel
from rlpanel.app.demo import write_recording
from tests.ui.lab import ROOT, Lab
from tests.ui.test_notebook import RUN_ALL, notebook

pytestmark = pytest.mark.slow

CELLS = (
    "import holoviews as hv\nimport rlpanel\nrun = rlpanel.open_run('runs/couplets-grpo')\nrun",
    "plot = run.plot\nplot.curve('reward') + plot.distribution('reward', 60)",
    "links = hv.link_selections.instance()\n"
    "layout = plot.scatter('response_tokens', 'reward', 60) + plot.distribution('surprisal_mean', 60)\n"
    "layout += plot.groups(60) + plot.tokens(run.samples(60).uid[0])\n"
    "links(layout.cols(2))",
    "run.sample(run.samples(60).uid[0])",
)
VIEWPORT = {"width": 1380, "height": 1700}
#: Numbers of samples in histograms and scatter plots, and of groups: of all samples and of selected ones.
SAMPLES = """() => {
    const roots = Object.values(Bokeh.index.roots ?? Bokeh.index)
    const models = roots.flatMap((root) => [...root.model.references()])
    const sources = models.filter((model) => model.type === "ColumnDataSource").map((source) => source.data)
    const bars = sources.filter((data) => data.left && data.top && !data.bottom)
    const points = sources.filter((data) => data.response_tokens && data.reward)
    const groups = sources.filter((data) => data.position && data.reward_mean)
    const distinct = (counts) => [...new Set(counts)].filter((count) => count > 0).sort((a, b) => a - b)
    return {
        bars: distinct(bars.map((data) => data.top.reduce((sum, count) => sum + count, 0))),
        points: distinct(points.map((data) => data.reward.length)),
        groups: distinct(groups.map((data) => data.reward_mean.length)),
    }
}"""
#: Places of two positions in the plot of groups on the page, in CSS pixels.
PLACES = """([left, right]) => {
    const found = []
    const visit = (view) => {
        if (view.frame?.x_scale && view.model.below[0]?.axis_label?.includes("groups")) { found.push(view) }
        for (const child of view.child_views ?? []) { visit(child) }
    }
    for (const view of Object.values(Bokeh.index.roots ?? Bokeh.index)) { visit(view) }
    const [plot] = found
    const box = plot.el.getBoundingClientRect()
    const x = (position) => box.left + plot.frame.x_scale.compute(position)
    return { left: x(left), right: x(right), middle: box.top + box.height / 2 }
}"""


def test_plots_are_drawn_and_linked_in_jupyterlab(page: Page, tmp_path: Path) -> None:
    run = write_recording("grpo_couplets", tmp_path / "runs" / "couplets-grpo")
    (tmp_path / "plots.ipynb").write_text(json.dumps(notebook(*CELLS)))
    page.set_viewport_size(VIEWPORT)
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/plots.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        cells = page.locator(".jp-CodeCell")
        expect(cells.nth(0)).to_contain_text("60 steps (1–60) · 3,840 samples · 1 rank")
        expect(cells.nth(0).locator("svg polyline")).to_be_visible()
        expect(cells.nth(1).locator(".bk-Figure")).to_have_count(2)
        expect(cells.nth(3).locator("summary")).to_have_count(3)

        linked = cells.nth(2)
        scatter = linked.locator(".bk-Figure").first
        expect(linked.locator(".bk-Figure")).to_have_count(4)
        assert page.evaluate(SAMPLES)["points"] == [64]
        linked.locator(".bk-tool-icon-box-select").first.click()
        box = scatter.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 60, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 220, box["y"] + 120, steps=5)
        page.mouse.up()
        # The box is around the rewards of 1.5 and 1.7.
        best = f"{int((rlpanel.open_run(run, follow=False).samples(60).reward > 1.4).sum())},64"
        page.wait_for_function(f"() => String(({SAMPLES})().points) === '{best}'")
        page.wait_for_function(f"() => String(({SAMPLES})().bars) === '{best}'")

        # A box around the marks of the three groups with the lowest means selects their samples.
        linked.locator(".bk-tool-icon-reset").first.click()
        page.wait_for_function(f"() => String(({SAMPLES})().points) === '64'")
        box = page.evaluate(PLACES, [0.5, 3.5])
        page.mouse.move(box["left"], box["middle"] - 60)
        page.mouse.down()
        page.mouse.move(box["right"], box["middle"] + 60, steps=5)
        page.mouse.up()
        page.wait_for_function(f"() => String(({SAMPLES})().groups) === '3,8'")
        page.wait_for_function(f"() => String(({SAMPLES})().points) === '24,64'")

        page.mouse.move(5, 500)
        folder = ROOT / "docs" / "images" if os.environ.get("RLPANEL_SHOTS") else tmp_path
        first, last = cells.nth(0).bounding_box(), linked.bounding_box()
        assert first is not None
        assert last is not None
        height = last["y"] + last["height"] - first["y"]
        shot = page.screenshot(path=folder / "notebook-plots.png", clip={**first, "height": height})
        assert len(shot) > 30_000
