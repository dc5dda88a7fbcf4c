"""What the page spares the browser: creating cells again, scripts that it does not use, styles of plots."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import VIEWPORT
from tests.factories import write_run
from tests.ui.board import BoardPage


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """A run with more samples than a tall window shows."""
    write_run(root / "long", steps=2, samples=64)


def test_cells_stay_when_the_window_becomes_larger(board: BoardPage) -> None:
    board.go(run="long", step=2).settled(2)
    holder = board.page.locator(".rl-grid .tabulator-tableholder")
    cell = board.page.locator(".rl-grid .tabulator-cell[tabulator-field=c_reward]").first.element_handle()
    before = holder.bounding_box()
    board.page.set_viewport_size({"width": VIEWPORT["width"] + 300, "height": VIEWPORT["height"] + 300})
    board.page.wait_for_function(
        "([holder, height]) => holder.clientHeight > height + 100",
        arg=[holder.element_handle(), before["height"] if before else 0],
    )
    board.page.set_viewport_size(VIEWPORT)
    assert cell is not None
    assert cell.evaluate("(node) => node.isConnected")


def test_no_script_is_loaded_that_the_board_does_not_use(board: BoardPage) -> None:
    board.go(run="long", step=2).settled(2)
    loaded = board.page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert any("tabulator.min.js" in name for name in loaded)
    assert not [name for name in loaded if "bokeh-gl" in name]


def test_plots_ask_for_no_styles(board: BoardPage) -> None:
    board.go(run="long", step=2).settled(2)
    board.page.evaluate(
        """() => {
          const asked = window.getComputedStyle
          window.asked = 0
          window.getComputedStyle = (node, ...rest) => {
            const found = asked(node, ...rest)
            return new Proxy(found, { get(from, name) {
              if (name !== "getPropertyValue") return Reflect.get(from, name)
              return (property) => {
                if (/^--.*line-color$/.test(property)) window.asked += 1
                return from.getPropertyValue(property)
              }
            } })
          }
        }"""
    )
    board.go(run="long", step=1).settled(1)
    assert board.page.evaluate("window.asked") == 0


def test_a_select_takes_options_before_it_is_drawn(board: BoardPage) -> None:
    """A page that is opened at once sends them before the browser has drawn its fields."""
    board.go(run="long", step=2).settled(2)
    options = board.page.evaluate(
        """async () => {
          const { Select } = Bokeh.require("models/widgets/select")
          const select = new Select({ options: ["before"] })
          const view = await Bokeh.require("core/build_views").build_view(select)
          select.options = ["first", "second"]
          select.value = "second"
          view.render()
          return [[...view.input_el.options].map((each) => each.value).join(), view.input_el.value]
        }"""
    )
    assert options == ["first,second", "second"]


def test_ticks_below_zero_have_a_minus(board: BoardPage) -> None:
    """A hyphen is shorter, and stands lower, than the minus of the numbers in the heads of the cards."""
    board.go(run="long", step=2).settled(2)
    ticks = board.page.evaluate(
        """() => {
          const { PrintfTickFormatter } = Bokeh.require("models/formatters/printf_tick_formatter")
          return new PrintfTickFormatter({ format: "%.4g" }).doFormat([-0.5, 0, 2e-9], { loc: 0 })
        }"""
    )
    assert ticks == ["−0.5", "0", "2e−9"]
