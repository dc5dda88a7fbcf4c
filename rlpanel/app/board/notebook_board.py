"""The board as a Panel object: a notebook's cell, ``pn.serve``, or a template of yours."""

from __future__ import annotations

import os

import panel as pn

from rlpanel.app.board.board import Board
from rlpanel.app.board.page import page_of, resolve_root
from rlpanel.panels.notebook.notebook_frame import NotebookFrame, load
from rlpanel.panels.session.event_loop import current_loop
from rlpanel.panels.ui import theme

#: Pixels; a cell has no height of its own to fill.
HEIGHT = 900


def board(root: str | os.PathLike[str] | None = None) -> pn.Column:
    """The board over the runs below ``root``, to be placed among other things.

    It leaves the window's keys and address alone, which belong to the notebook or page around it.

    Parameters
    ----------
    root : path, optional
        The folder that holds runs; ``$RLPANEL_ROOT``, then ``./rollout_samples`` by default.

    Returns
    -------
    pn.Column
        Live in a notebook's cell and where a server stands behind it.
    """
    load()
    made, place = Board(resolve_root(root)), current_loop()
    page = page_of(made, owns_window=False)
    page.height = HEIGHT
    frame = NotebookFrame(page, None, made.context.selection.dark)
    if pn.state.curdoc is not None:
        pn.state.curdoc.theme = theme.PLOTS
    if place is not None:
        made.connect(place)
    return frame
