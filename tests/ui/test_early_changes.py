"""Changes that reach a browser while it is still building what they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import append, line, write_run
from tests.ui.board import BoardPage
from tests.ui.conftest import OpenBoard

#: Defines `find(test)`, which returns the first view of the page that passes the test.
FIND = """
const find = (test) => {
  const views = [...Bokeh.index.roots]
  for (const view of views) {
    if (test(view)) { return view }
    // From Bokeh 3.10 on, a missing context menu is among them.
    views.push(...view.children_views().filter(Boolean))
  }
}
"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """A plain run, and a run whose samples change at step 2 and then have one response."""
    write_run(root / "plain", steps=2, samples=16)
    (root / "planted").mkdir()
    append(
        root / "planted" / "rollout_data_rank_0.jsonl",
        *(line(1, index=at, reward=at % 7) for at in range(48)),
        *(line(2, index=at, reward=9 + at % 7, response="one response to all prompts") for at in range(48)),
    )


def test_rows_and_sort_that_come_before_the_table_are_shown(board: BoardPage) -> None:
    board.go(run="plain", step=2).settled(2)
    board.page.evaluate(f"""() => {{
      {FIND}
      const view = find((view) => view.model.css_classes?.includes("rl-grid"))
      view.render()  // Tabulator creates the table in a later task
      const {{ data, data: {{ shape, rows }} }} = view.model
      const {{ cells, keys }} = JSON.parse(rows)
      const at = shape.columns.findIndex((column) => column.name === "prompt")
      cells[at] = keys.map((_, row) => `prompt ${{row}}`)
      data.setv({{ rows: JSON.stringify({{ cells, keys }}), pages: 7 }}, {{ sync: false }})
      data.setv({{ order: [["reward", false]] }}, {{ sync: false }})
    }}""")
    grid = board.page.locator(".rl-grid")
    expect(grid.get_by_text("prompt 7", exact=True)).to_be_visible()
    expect(grid.get_by_role("button", name="5", exact=True)).to_be_visible()
    expect(board.header("reward")).to_have_attribute("aria-sort", "ascending")


@pytest.mark.slow
def test_a_plot_that_is_ready_before_its_tab_is_drawn(open_board: OpenBoard) -> None:
    """The last component of the tab takes long to build; its plot is computed meanwhile."""
    board = open_board(run="planted", step=2).settled(2)
    board.tab("Explain")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("in step 2")
    board.page.evaluate(f"""() => {{
      {FIND}
      const made = Object.getPrototypeOf(find((view) => view.model.esm !== undefined))
      const build = made.lazy_initialize
      made.lazy_initialize = async function () {{
        await build.call(this)
        await new Promise((done) => setTimeout(done, 1000))
      }}
    }}""")
    board.pick(".rl-explain-what", "Responses that repeat")
    expect(board.page.locator(".rl-cluster-plot canvas").first).to_be_visible(timeout=15_000)


def test_children_that_change_twice_at_once_have_one_view_each(board: BoardPage) -> None:
    board.go(run="plain", step=2).settled(2)
    board.page.evaluate(f"""() => {{
      {FIND}
      const {{ Div, DivView }} = Bokeh.require("models/widgets/div")
      const build = DivView.prototype.lazy_initialize
      window.built = []
      DivView.prototype.lazy_initialize = async function () {{
        window.built.push(this.model.text)
        await build.call(this)
      }}
      const {{ model }} = find((view) => view.model.css_classes?.includes("rl-curves"))
      const late = new Div({{ text: "a late card" }})
      model.children = [...model.children, late]
      model.children = [...model.children, new Div({{ text: "a later card" }})]
    }}""")
    expect(board.page.get_by_text("a later card")).to_be_visible()
    assert board.page.evaluate("window.built") == ["a late card", "a later card"]
