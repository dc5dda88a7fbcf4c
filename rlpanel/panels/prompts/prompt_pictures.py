"""Makes the picture of a part of the grid: its pixels, and what rows, columns and bands are called."""

from __future__ import annotations

import numpy as np

from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.prompts.grid_figure import GridPicture, step_ticks
from rlpanel.panels.prompts.grid_image import GridWindow, grid_image, lanes_of
from rlpanel.panels.texts.sample_texts import read_texts
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
)
from rlpanel.store.snapshot.prompt_costs import PromptCosts
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import TextStyle, prompt_line
from rlpanel.texts.shorten import plot_text

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
