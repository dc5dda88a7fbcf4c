"""Buttons of the header: the side panel's toggle with the logo, the theme switch, and the keyboard help."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.app.board.browser_window import KEYS
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Selection
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

_CSS: list[str] = [
    theme.CSS,
    read_assets("panels/ui/badge.css", "panels/ui/help.css", "app/page/page_controls.css"),
]


class SideToggle(Component):
    """Button that shows and hides the side panel, and the logo; both are handled in the browser."""

    _esm = read_assets("panels/ui/dom.js", "app/page/side_toggle.js")
    _stylesheets: ClassVar[list[str]] = _CSS

    def __init__(self, **params: Any) -> None:
        super().__init__(css_classes=["rl-side-toggle"], **params)


class PageControls(Component):
    """Theme switch and keyboard help.

    A message is ``["prefer", dark]`` with the browser's preference when the page was opened without a theme
    in its URL, ``["linked", dark]`` with the same when it was opened with one, and ``["theme", dark]`` when
    the user switches the theme.

    Parameters
    ----------
    selection : Selection
        Its ``dark`` follows the switch and, without a theme in the URL, the browser's preference.
    owns_window : bool
        True if the board may read the window's URL and store the theme in a cookie.
    """

    dark = param.Boolean(default=True, doc="Whether the theme is dark.")
    owns_window = param.Boolean(default=False, doc="Whether the board owns the browser's window.")
    whole = param.Boolean(default=False, doc="Whether the page has all its views; the first view goes then.")
    keys = param.Dict(default=KEYS, doc="Keyboard shortcuts and their meaning.")

    _esm = read_assets(
        "panels/ui/dom.js", "panels/ui/closing.js", "panels/session/drawn.js", "app/page/page_controls.js"
    )
    _stylesheets: ClassVar[list[str]] = _CSS

    def __init__(self, selection: Selection, *, owns_window: bool) -> None:
        super().__init__(
            dark=selection.dark,
            keys={tr(key): tr(text) for key, text in KEYS.items()},
            owns_window=owns_window,
            css_classes=["rl-page-controls"],
        )
        self._selection = selection
        selection.param.watch(lambda event: setattr(self, "dark", event.new), "dark")

    def complete(self) -> None:
        """Tell the browser that all views were sent: it removes the first view when they are drawn."""
        self.whole = True

    def receive(self, message: Any) -> None:
        """Apply a theme. The message comes from the browser."""
        if not (isinstance(message, list) and len(message) == 2 and isinstance(message[1], bool)):
            return
        action, dark = message
        if action == "prefer":
            self._selection.prefer_theme(dark)
        elif action == "linked":
            self._selection.preferred_dark = dark
        elif action == "theme":
            self._selection.dark = dark
