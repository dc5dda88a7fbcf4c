"""The board as a Panel object: a notebook's cell, ``pn.serve``, or a template of yours."""

from __future__ import annotations

import os

import panel as pn

from rlpanel.app.board import Board
from rlpanel.app.page import Layout, resolve_root
from rlpanel.views import theme
from rlpanel.views.runs import Badge, RunList

#: Pixels; a cell has no height of its own to fill.
HEIGHT = 900


def board(root: str | os.PathLike[str] | None = None) -> pn.Column:
    """The board over the runs below ``root``.

    Parameters
    ----------
    root : path, optional
        The folder that holds runs; ``$RLPANEL_ROOT``, then ``./rollout_samples`` by default.

    Returns
    -------
    Column
        Live where a server stands behind it.
    """
    pn.extension("tabulator")
    made = Board(resolve_root(root))
    if pn.state.curdoc is not None:
        made.connect(pn.state.curdoc)
        pn.state.add_periodic_callback(made.tick, period=1000)
    layout = Layout(made)
    top = pn.Row(RunList(made.context), Badge(made.context), sizing_mode="stretch_width", margin=(8, 4))
    return pn.Column(
        top,
        *layout.parts,
        sizing_mode="stretch_width",
        height=HEIGHT,
        stylesheets=[theme.VARIABLES, ":host { background: var(--rl-bg); color: var(--rl-text); }"],
        css_classes=["rl-dark" if made.context.selection.dark else "rl-light"],
    )
