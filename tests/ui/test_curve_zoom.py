"""A zoom in one curve: all curves show these steps, until a double click shows all again."""

from __future__ import annotations

from pathlib import Path

from tests.factories import write_run
from tests.ui.conftest import OpenBoard

_SPANS = """() => Bokeh.documents.flatMap((document) => [...document.all_models])
    .filter((model) => model.type === "Figure").map(({x_range}) => x_range.end - x_range.start)"""


def test_all_curves_show_a_zoom_until_a_double_click(open_board: OpenBoard, root: Path) -> None:
    write_run(root / "zoomed", steps=20, samples=4)
    board = open_board(run="zoomed").settled(20)
    board.until(lambda: len(board.page.evaluate(_SPANS)) > 1)
    whole = board.page.evaluate(_SPANS)
    plot = board.page.locator(".rl-curve .bk-Figure").first
    place = plot.bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    board.page.mouse.move(place["x"] + place["width"] * 0.4, y)
    board.page.mouse.down()
    board.page.mouse.move(place["x"] + place["width"] * 0.7, y, steps=5)
    board.page.mouse.up()
    board.until(lambda: all(span < whole[0] / 2 for span in board.page.evaluate(_SPANS)), "zoomed")
    plot.dblclick(position={"x": place["width"] / 2, "y": place["height"] / 2})
    board.until(lambda: board.page.evaluate(_SPANS) == whole, "all steps again")
