"""The board as a Panel object: a notebook's cell, ``pn.serve``, or a template of yours."""

from __future__ import annotations

import os

import panel as pn
from panel_material_ui.template.base import Page

from rlpanel.app.board import Board
from rlpanel.app.page import page_of, resolve_root
from rlpanel.views import theme

#: Pixels; a cell has no height of its own to fill.
HEIGHT = 900


def board(root: str | os.PathLike[str] | None = None) -> Page:
    """The board over the runs below ``root``, to be placed among other things.

    It leaves the window's keys and address alone, which belong to the notebook or page around it.

    Parameters
    ----------
    root : path, optional
        The folder that holds runs; ``$RLPANEL_ROOT``, then ``./rollout_samples`` by default.

    Returns
    -------
    Page
        Live where a server stands behind it.
    """
    pn.extension("tabulator")
    made = Board(resolve_root(root))
    document = pn.state.curdoc
    if document is not None and document.session_context is not None:
        document.theme = theme.PLOTS
        made.connect(document)
    page = page_of(made, owns_window=False)
    page.height = HEIGHT
    return page
