"""Plots of a run in JupyterLab: they are drawn, and a box in one selects samples in the others."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from rlpanel.app.demo import write_recording
from tests.ui.lab import Lab
from tests.ui.test_notebook import RUN_ALL, notebook

CELLS = (
    "import holoviews as hv\nimport rlpanel\nrun = rlpanel.open_run('runs/couplets-grpo')\nrun",
    "plot = run.plot\nplot.curve('reward') + plot.distribution('reward', 60) + "
    "plot.scatter('response_tokens', 'reward', 60)",
    "links = hv.link_selections.instance()\n"
    "links(plot.scatter('response_tokens', 'reward', 60) + plot.distribution('kl_k3_mean', 60))",
    "run.sample(run.samples(60).uid[0])",
)
VIEWPORT = {"width": 1500, "height": 2200}
#: Sizes of the columns of all plots below an element, whose shadow roots are searched as well.
POINTS = """() => Object.values(Bokeh.index.roots ?? Bokeh.index).flatMap((root) =>
    [...root.model.references()].filter((model) => model.type === "ColumnDataSource")
        .map((source) => Math.max(0, ...Object.values(source.data).map((column) => column.length))))"""


def test_plots_are_drawn_and_linked_in_jupyterlab(page: Page, tmp_path: Path) -> None:
    write_recording("grpo_couplets", tmp_path / "runs" / "couplets-grpo")
    (tmp_path / "plots.ipynb").write_text(json.dumps(notebook(*CELLS)))
    page.set_viewport_size(VIEWPORT)
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/plots.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        cells = page.locator(".jp-CodeCell")
        expect(cells.nth(0)).to_contain_text("60 steps (1–60) · 3,840 samples · 1 rank")
        expect(cells.nth(0).locator("svg polyline")).to_be_visible()
        page.wait_for_timeout(4000)
        page.screenshot(path="/tmp/plotwork/lab.png")
        print(cells.nth(1).inner_html()[:6000])
        return
        expect(cells.nth(3).locator("summary")).to_have_count(3)
        page.wait_for_timeout(3000)
        page.screenshot(path="/tmp/plotwork/lab.png")
        print(page.evaluate("() => typeof Bokeh"), page.evaluate(POINTS))
