"""The browser's window as the board needs it: keys, and the address with Back and Forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

from rlpanel.panels.ui.assets import read_assets

#: Key → what it does, as the help lists them.
KEYS = {
    "← →": "step before, step after",
    "j k": "next sample, sample before",
    "[ ]": "colour the tokens by another metric",
    "/": "search prompts and responses",
    "f": "filter samples",
    "?": "this list",
    "in the token view": "← → token, Shift ← → outlier, / search, Esc lets go",
}


class Window(JSComponent):
    """Sends the page's keys to ``on_key`` and keeps the address at ``query``, both ways.

    Panel's own location takes no notice of Back and Forward, and writes a new entry for each change.
    """

    query = param.String(default="", doc="What follows the path in the address, with its question mark.")
    on_key = param.Callable(doc="Called with the key's name.", precedence=-1)

    _esm = read_assets("app/board/browser_window.js")
    _rename = {"on_key": None}

    def __init__(self, on_key: Callable[[str], None], **params: Any) -> None:
        super().__init__(on_key=on_key, width=0, height=0, margin=0, **params)

    def _handle_msg(self, msg: Any) -> None:
        if isinstance(msg, str):
            self.on_key(msg)
