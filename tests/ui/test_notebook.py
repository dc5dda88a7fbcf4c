"""The notebook in a JupyterLab: every view is drawn, follows the log, and moves with the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.factories import append
from tests.ui.lab import ROOT, Lab
from tests.ui.raw import raw_frame

#: Tall enough that every cell is in sight; JupyterLab draws no others.
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

        grid.locator(".tabulator-row").nth(1).click()
        response = raw_frame(folder).iloc[-1].response
        expect(tokens.locator(".rl-tokens-text")).to_have_text(f"{response}<|eos|>")
