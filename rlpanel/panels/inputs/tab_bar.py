"""A bar of tabs in one row, and the declaration of a tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.inputs.lazy_view import ActiveView
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class Tab(NamedTuple):
    """One tab of the sample panel, or one page of the run.

    Attributes
    ----------
    key : str
        Its name in the address: one of `rlpanel.board_url.TABS` or `rlpanel.board_url.PAGES`.
    title : str
        Its label on screen.
    make : callable
        Makes its view from the session's `Context` when the tab is first opened. The view has a parameter
        ``active`` and does nothing while that is False.
    applies : callable
        Returns whether a run (its `Snapshot`) logs what the tab shows; the tab is left out if not.
    of_step : bool
        Whether a page shows the selected step: the bar of steps then stays above it.
    fits : bool
        Whether a page is as high as its content: one with little in it is no large empty box.
    log : str
        Keys that a run must log so that the page applies.
    """

    key: str
    title: str
    make: Callable[[Any], ActiveView]
    applies: Callable[[Any], bool] = lambda _: True
    of_step: bool = False
    fits: bool = False
    log: str = ""


class TabBar(Component):
    """Tabs drawn by ``tab_bar.js``; a click or an arrow key sends the tab's key.

    Tabs without room in the row are in a list behind it.
    """

    tabs = param.List(default=[], doc="One JSON object per tab: key and title.")
    value = param.String(default="", doc="Key of the open tab.")
    label = param.String(default="", doc="What a screen reader calls the bar.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/closing.js", "panels/inputs/tab_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/inputs/tab_bar.css")]
