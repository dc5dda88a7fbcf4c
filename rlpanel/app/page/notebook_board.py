"""The board as a Panel object, for a notebook cell, ``pn.serve`` or a template of one's own."""

from __future__ import annotations

import os

import panel as pn

from rlpanel.app.board.board import Board
from rlpanel.app.page.page import resolve_root
from rlpanel.app.page.page_layout import Layout
from rlpanel.panels.notebook.notebook_frame import NotebookFrame, load_scripts
from rlpanel.panels.session.event_loop import current_loop, take_steps
from rlpanel.panels.ui import theme


def board(
    root: str | os.PathLike[str] | None = None, *, height: int = 720, dark: bool | None = None
) -> pn.Column:
    """Return the board for the runs below ``root``, to be embedded in a notebook or page.

    It does not use the window's keys and URL, which belong to the surrounding notebook or page.

    Parameters
    ----------
    root : path, optional
        The folder that holds runs; ``$RLPANEL_ROOT``, then ``./rollout_samples`` by default.
    height : int
        Height in pixels: a notebook cell has no height that the board could fill.
    dark : bool, optional
        Dark or light theme; by default that of the notebook or page around the board.

    Returns
    -------
    pn.Column
        It is updated live in a notebook cell and on a server; in a plain script it stays as it is.
    """
    load_scripts()
    controller, loop = Board(resolve_root(root)), current_loop()
    controller.context.selection.dark = theme.is_dark(dark)
    layout = Layout(controller, owns_window=False)
    take_steps(None, layout.steps(None))
    frame = NotebookFrame(layout.root, controller.context, dark, height=height)
    if pn.state.curdoc is not None:
        pn.state.curdoc.theme = theme.PLOTS
    if loop is not None:
        controller.connect(loop)
    return frame
