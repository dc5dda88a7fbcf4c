"""Component for the browser's window: keyboard shortcuts, and the URL with Back and Forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked
from rlpanel.panels.ui.assets import read_assets

#: Keyboard shortcuts and their meaning, as the help lists them.
KEYS = {
    "← →": marked("previous step, next step"),
    "j k": marked("next sample, previous sample; also ↓ ↑ in the table"),
    "[ ]": marked("colour the tokens by another metric"),
    "/": marked("search prompts and responses"),
    "f": marked("filter samples"),
    "m": marked("give the sample the whole page; Esc returns"),
    "?": marked("show or hide this list"),
    marked("in a conversation"): marked(
        "n hit, e error, r reward that is not 0, with Shift the one before; [ ] message, / find here"
    ),
    marked("in the token view"): marked("← → token, Shift ← → outlier, / search, Esc unselects the token"),
}


class BrowserWindow(Component):
    """Passes keys to ``on_key``, Back and Forward to ``on_navigate``; writes ``query`` to the URL.

    Panel's own location component ignores Back and Forward, and adds a history entry for every change
    (https://github.com/holoviz/panel/issues/7357).
    """

    query = param.String(default="", doc="Query string of the URL, with the question mark.")
    title = param.String(default="rlpanel", doc="Title of the window.")
    on_key = param.Callable(doc="Called with the key's name.", precedence=-1)
    on_navigate = param.Callable(doc="Called with the query string after Back or Forward.", precedence=-1)

    _esm = read_assets("panels/ui/dom.js", "app/board/browser_window.js")
    _rename = {"on_key": None, "on_navigate": None}

    def __init__(self, on_key: Callable[[str], None], **params: Any) -> None:
        super().__init__(on_key=on_key, width=0, height=0, margin=0, **params)

    def receive(self, message: Any) -> None:
        """Handle a key, or the URL after Back or Forward."""
        if isinstance(message, str):
            self.on_key(message)
        elif isinstance(message, dict) and isinstance(message.get("navigated"), str):
            try:
                self.on_navigate(message["navigated"])
            finally:
                self.send({"answer": self.query})
