"""The grid of pass rates with its controls: the part in view is drawn as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import param

from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.prompts.grid_figure import (
    GridFigure,
    GridPicture,
    GridWindow,
    grid_image,
    lanes_of,
    rate_colors,
    step_ticks,
    window_of,
)
from rlpanel.panels.prompts.prompt_results import ALL, PromptResults
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.sample_texts import read_texts, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_columns import prompt_key
from rlpanel.store.snapshot.prompt_classes import (
    ALWAYS,
    CLASSES,
    FLICKERS,
    FORGOTTEN,
    LEARNT,
    NEVER,
    SELDOM,
    STEADY,
    PromptCosts,
)
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import TextStyle, prompt_line
from rlpanel.texts.shorten import plot_text

# -- grid head -----------------------------------------------------------------------------------------
# Controls around the grid of prompts: legend, category, waste, and the curriculum file of a class.


class PassGridHead(Component):
    """Drawn by ``grid_head.js``; a click sends a pair of an action and a value."""

    data = param.Dict(
        default={},
        doc="Legend, categories, facts, weights, and the labels of fields and buttons; missing parts are "
        "not drawn.",
    )

    _esm = read_assets("panels/ui/dom.js", "panels/export/download.js", "panels/prompts/prompt_grid_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/prompts/grid_head.css")]


# -- prompt pictures -----------------------------------------------------------------------------------
# Makes the picture of a part of the grid: its pixels, and what rows, columns and bands are called.


#: Lanes in view up to which tooltips show the texts of the prompts, and the key where there are more.
MAX_TEXTS = 100
#: Characters of a prompt in a tooltip.
_CHARS = 70

BAND_TITLES = {
    LEARNT: marked("learnt"),
    FORGOTTEN: marked("forgotten"),
    FLICKERS: marked("flickers"),
    NEVER: marked("never"),
    ALWAYS: marked("always"),
    STEADY: marked("steady"),
    SELDOM: marked("seldom"),
}


def picture_of(
    index: RunIndex,
    snapshot: Snapshot,
    costs: PromptCosts,
    prompts: np.ndarray,
    window: GridWindow,
    columns: int,
    rows: int,
    style: TextStyle,
) -> GridPicture:
    """Return the picture of a window; it may run on any thread.

    Parameters
    ----------
    index : RunIndex
        Texts of prompts are read from its lines.
    snapshot : Snapshot
    costs : PromptCosts
    prompts : ndarray of int
        The prompt of each lane, by class.
    window : GridWindow
    columns, rows : int
        Pixels of the plot.
    style : TextStyle
    """
    grid = costs.grid
    image = grid_image(grid, lanes_of(grid, prompts), window, columns, rows)
    codes = costs.classes[prompts]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    ends = np.append(starts[1:], len(codes))
    bands = tuple(
        (first, last, tr(BAND_TITLES[CLASSES[codes[first]]]))
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    height, width = image.samples.shape
    return GridPicture(
        image,
        tuple(_names(index, snapshot, costs, prompts, window, height, style)),
        tuple(_columns(grid.steps, window, width)),
        bands,
        step_ticks(grid.steps, window.start, window.stop),
    )


def _names(
    index: RunIndex,
    snapshot: Snapshot,
    costs: PromptCosts,
    prompts: np.ndarray,
    window: GridWindow,
    height: int,
    style: TextStyle,
) -> list[str]:
    """Return what each row of the image is called."""
    in_view = prompts[window.first : window.last]
    titles = [tr(BAND_TITLES[name]) for name in CLASSES]
    if len(in_view) > height:
        edges = -(-np.arange(height + 1) * len(in_view) // height)
        return [
            tr(
                "{count:,} prompts, {title}",
                count=int(last - first),
                title=titles[costs.classes[in_view[first]]],
            )
            for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]
    rows = costs.grid.newest[in_view]
    if len(in_view) <= MAX_TEXTS:
        texts = [prompt_line(each.get("prompt"), style) for each in read_texts(index, snapshot, rows)]
    else:
        texts = [prompt_key(int(key)) for key in snapshot.prompts(rows)]
    return [
        f"{plot_text(text, _CHARS)} ({titles[costs.classes[prompt]]})"
        for text, prompt in zip(texts, in_view.tolist(), strict=True)
    ]


def _columns(steps: np.ndarray, window: GridWindow, width: int) -> list[str]:
    """Return the steps of each column of the image."""
    edges = window.start + -(-np.arange(width + 1) * window.steps // width)
    return [
        f"{steps[first]:,}" if last - first == 1 else f"{steps[first]:,} … {steps[last - 1]:,}"
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


# -- pass grid -----------------------------------------------------------------------------------------
# The grid of pass rates with its legend and category: drawn for what is in view, with the plot's pixels.


#: Grids of up to this many cells are drawn on the event loop, larger ones on a thread.
DRAW_NOW = 50_000


class PassGrid:
    """Grid of pass rates: a lane per prompt, a column per step.

    Parameters
    ----------
    context : Context
    pick : callable
        Takes the unique name of a sample when the lane of its prompt is clicked.

    Attributes
    ----------
    head : PassGridHead
    figure : GridFigure
    """

    def __init__(self, context: Context, pick: Callable[[str], None]) -> None:
        self._context, self._pick = context, pick
        self._found: PromptResults | None = None
        self._lanes = np.empty(0, int)  # prompts, from the bottom
        self._window: GridWindow | None = None  # None if everything is in view
        self._picture: GridPicture | None = None
        # A browser that still builds the page's views ignores a child that is replaced: the plot stays blank.
        self._browser_ready = False
        self._drawing: BackgroundTask[GridPicture] = BackgroundTask(self._show, context.threads.pages)
        self.head = PassGridHead(sizing_mode="stretch_width", margin=(4, 14), css_classes=["rl-grid-head"])
        self.head.on_message(self._on_message)
        self.figure = GridFigure(self._zoom, self._tap)

    def forget_zoom(self) -> None:
        """Show all of the next grid: a zoom of this one has no meaning there."""
        self._window = None

    def stop(self) -> None:
        """Stop drawing."""
        self._drawing.stop()

    def draw(self, found: PromptResults, lanes: np.ndarray) -> None:
        """Draw results for the prompts of the lanes."""
        self._found, self._lanes = found, lanes
        self._show_head(found)
        self._draw(found)

    def _whole(self, found: PromptResults) -> GridWindow:
        return GridWindow(0, len(found.costs.grid.steps), 0, len(self._lanes))

    def _draw(self, found: PromptResults) -> None:
        """Draw what is in view, with as many cells as the plot has pixels."""
        costs, index = found.costs, self._context.index
        if index is None:
            return
        if not len(self._lanes) or not costs.grid.visits.any():
            self._picture = None
            self.figure.clear()
            return
        whole = self._whole(found)
        window, (columns, rows) = self._window or whole, self.figure.pixels
        window = window_of(costs.grid, whole.last, (window.start, window.stop), (window.first, window.last))
        lanes, style = self._lanes, text_style(self._context)

        def draw() -> Iterator[GridPicture]:
            yield picture_of(index, found.snapshot, costs, lanes, window, columns, rows, style)

        if len(costs.grid.prompt) <= DRAW_NOW:
            self._drawing.stop()
            self._show(next(draw()))
        else:
            self._drawing.start(draw())

    def _show(self, picture: GridPicture) -> None:
        self._picture = picture
        if self._browser_ready and self._found is not None:
            whole, selection = self._whole(self._found), self._context.selection
            key = (self._found.snapshot.name, selection.prompt_category, selection.dark, whole)
            self.figure.show_grid(picture, key, selection.dark, (whole.stop, whole.last))

    def _zoom(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Draw the part that the viewer chose."""
        found = self._found
        if found is None:
            return
        whole = self._whole(found)
        window = window_of(found.costs.grid, whole.last, x, y)
        before, self._window = self._window, None if window == whole else window
        if self._window != before:
            self._show_head(found)
            self._draw(found)

    def _tap(self, x: float, y: float) -> None:
        """Open the history of the prompt of a lane."""
        if np.isfinite(y) and 0 <= y < len(self._lanes) and self._found is not None:
            row = int(self._found.costs.grid.newest[self._lanes[int(y)]])
            self._pick(self._found.snapshot.uid(row))

    def _show_head(self, found: PromptResults) -> None:
        selection = self._context.selection
        offered, chosen = [(each.key, each.title) for each in found.categories], selection.prompt_category
        if chosen and chosen not in [key for key, _ in offered]:
            offered.append((chosen, chosen))
        self.head.data = {
            "legend": {
                "low": tr("0 % pass"),
                "high": tr("100 % pass"),
                "colors": rate_colors(selection.dark)[::10],
            },
            "categories": [(ALL, tr("all")), *offered],
            "category": chosen,
            "zoomed": self._window is not None,
            "labels": {"category": tr("Category"), "all": tr("Whole grid")},
        }

    def _on_message(self, message: Any) -> None:
        """Handle a click in the head, and that it is drawn. The message comes from the browser."""
        action, value = pair_of(message)
        if action == "ready" and not self._browser_ready:
            self._browser_ready = True
            if self._picture is not None:
                self._show(self._picture)
        elif action == "category" and isinstance(value, str) and len(value) < 1000:
            self._context.selection.prompt_category = value
        elif action == "all" and self._found is not None:
            whole = self._whole(self._found)
            self.figure.show_all(whole.stop, whole.last)
            self._zoom((0, whole.stop), (0, whole.last))
