"""The notebook in JupyterLab: every view is drawn, follows the log, and is linked to the others."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, FloatRect, Locator, Page, expect

from tests.factories import append, write_run
from tests.ui.lab import ROOT, Lab
from tests.ui.raw import raw_frame

pytestmark = pytest.mark.slow

#: Tall enough for all cells, because JupyterLab draws only visible ones.
VIEWPORT = {"width": 1440, "height": 5000}
#: True when all cells ran without an error.
RUN_ALL = """async () => {
    await jupyterapp.restored
    await jupyterapp.shell.currentWidget.sessionContext.ready
    return jupyterapp.commands.execute("notebook:run-all-cells")
}"""


def test_the_notebook_is_live_in_jupyterlab(page: Page, tmp_path: Path) -> None:
    shutil.copy(ROOT / "dashboards" / "notebook.ipynb", tmp_path)
    page.set_viewport_size(VIEWPORT)
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/notebook.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        cells = page.locator(".jp-CodeCell")
        views = [cells.filter(has_text=f"rlpanel.views.{name}(run)") for name in ("curves", "grid", "tokens")]
        curves, grid, tokens = views
        expect(page.locator(".rl-board:visible")).to_have_count(1)
        expect(curves.locator(".rl-curve canvas").first).to_be_visible()
        head = grid.locator(".rl-samples .head .unit")
        expect(head).to_have_text("64 of step 60")

        [folder] = lab.scratch.glob("*/couplets-ppo")
        log = folder / "rollout_data_rank_0.jsonl"
        last = [json.loads(line) for line in log.read_bytes().splitlines()[-2:]]
        append(log, *(json.dumps(line | {"step": 61, "reward": 7.0}).encode() + b"\n" for line in last))
        expect(head).to_have_text("2 of step 61")
        expect(curves.locator(".head .number").first).to_have_text("7")
        expect(cells.filter(has_text="rlpanel.board").locator(".rl-badge")).to_contain_text("3,842 samples")

        grid.locator(".tabulator-row").nth(1).locator(".tabulator-cell:visible").first.click()
        response = raw_frame(folder).iloc[-1].response
        expect(tokens.locator(".rl-tokens-text")).to_have_text(f"{response}<|eos|>")


#: Two cells: a view of a run, and the board.
CELLS = ("import rlpanel\nrlpanel.views.grid(rlpanel.open_run('runs/a'))", "rlpanel.board('runs')")
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
#: Distinct colours of the lines of all axes in the page.
AXIS_LINES = """() => {
    const roots = Object.values(Bokeh.index.roots ?? Bokeh.index)
    const models = roots.flatMap((root) => [...root.model.references()])
    const axes = models.filter((model) => model.type === "LinearAxis")
    return [...new Set(axes.map((axis) => axis.axis_line_color))]
}"""
CHANGE_THEME = "(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})"
SAVE = "() => jupyterapp.commands.execute('docmanager:save')"


def test_views_say_that_their_kernel_was_restarted(context: BrowserContext, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "cells.ipynb").write_text(json.dumps(notebook(*CELLS)))
    # JupyterLab itself logs an error to the console when a kernel restarts.
    page, faults = context.new_page(), list[str]()
    context.on("weberror", lambda error: faults.append(str(error.error)))
    page.set_viewport_size(VIEWPORT)
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/cells.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        expect(page.locator(".tabulator-row")).to_have_count(2 * 8)
        marks, ages = page.locator(".rl-kernel .mark:visible"), page.locator(".rl-badge .now:visible")
        expect(ages).to_have_count(2)
        expect(marks).to_have_count(0)
        # A view is told of its kernel's restart only after the kernel has confirmed that it is drawn.
        expect(page.locator('[style*="--rl-now: inline"]')).to_have_count(2)

        assert page.evaluate(SAVE) is None
        page.evaluate(f"() => {KERNEL}.restart()")
        expect(marks).to_have_text([re.compile("The kernel was restarted at .*; run the cell again")] * 2)
        expect(ages).to_have_count(0)

        # A saved view has no kernel, which is no fault, and its age is unknown.
        page.reload()
        expect(page.locator(".tabulator-row")).to_have_count(2 * 8)
        page.evaluate("() => jupyterapp.restored")
        expect(marks).to_have_count(0)
        expect(ages).to_have_count(0)
        assert page.evaluate(RUN_ALL), "every cell runs"
        expect(ages).to_have_count(2)
        expect(marks).to_have_count(0)
    assert faults == []


@pytest.mark.parametrize("width", [1440, 1000])
def test_the_board_has_its_height_in_a_cell(page: Page, tmp_path: Path, width: int) -> None:
    write_run(tmp_path / "runs" / "a")
    cells = ("import rlpanel\nrlpanel.board('runs')", "rlpanel.board('runs', height=500)")
    (tmp_path / "cells.ipynb").write_text(json.dumps(notebook(*cells)))
    page.set_viewport_size({"width": width, "height": 3000})
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/cells.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        boards = page.locator(".jp-OutputArea-output:has(.rl-page)")
        expect(boards.locator(".rl-samples .tabulator-row").first).to_be_visible()
        expect(boards).to_have_count(2)
        for board, height in zip(boards.all(), (720, 500), strict=True):
            output = box(board)
            assert height <= output["height"] <= height + 20
            shown, header = box(board.locator(".rl-page")), box(board.locator(".rl-header"))
            assert output["height"] - 40 <= shown["height"] <= output["height"]
            assert shown["width"] > 0.97 * output["width"]
            assert box(board.locator(".rl-main"))["height"] > height - header["height"] - 40
        # Panel reports a layout that it changes.
        expect(page.locator(".jp-OutputArea-output[data-mime-type*=stderr]")).to_have_count(0)


def test_views_have_the_theme_of_the_lab_and_their_own_axes(page: Page, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    cells = ("import rlpanel\nrlpanel.board('runs')", "rlpanel.board('runs', dark=True)")
    (tmp_path / "cells.ipynb").write_text(json.dumps(notebook(*cells)))
    page.set_viewport_size(VIEWPORT)
    with Lab(tmp_path) as lab:
        page.goto(f"{lab.url}/tree/cells.ipynb")
        expect(page.locator(".jp-CodeCell").first).to_be_visible()
        assert page.evaluate(RUN_ALL), "every cell runs"
        frames = page.locator(".jp-OutputArea-output .rl-page")
        expect(frames).to_have_count(2)
        expect(frames.first).to_have_class(re.compile("rl-light"))
        expect(frames.last).to_have_class(re.compile("rl-dark"))
        page.evaluate(CHANGE_THEME, "JupyterLab Dark")
        expect(frames.first).to_have_class(re.compile("rl-dark"))
        page.evaluate(CHANGE_THEME, "JupyterLab Light")
        expect(frames.first).to_have_class(re.compile("rl-light"))
        expect(frames.last).to_have_class(re.compile("rl-dark"))  # as it was asked
        # The lab's document has Panel's theme for plots, whose axes are black lines.
        assert page.evaluate(AXIS_LINES) == [None]


def box(element: Locator) -> FloatRect:
    """Return the place and size of an element that is shown."""
    found = element.bounding_box()
    assert found
    return found


def notebook(*cells: str) -> dict[str, object]:
    """Return a notebook of code cells."""
    code = [{"cell_type": "code", "id": f"c{at}", "source": text} for at, text in enumerate(cells)]
    filled = [{**cell, "metadata": {}, "outputs": [], "execution_count": None} for cell in code]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": filled, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
