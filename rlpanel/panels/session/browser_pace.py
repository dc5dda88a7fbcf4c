"""Throttles updates of a page to the pace at which its browser draws them.

The next update is sent when the browser has drawn the last one and has rested.

A fast run may have fifteen steps a second, and a slow browser needs half a second to draw one. Without a
limit it would do nothing else, would answer clicks late, and would show steps that are long past.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import param

from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.session.event_loop import drawing_loop
from rlpanel.panels.ui.assets import read_assets

#: Share of the browser's main thread that news may take.
SHARE = 0.25
#: Longest pause after a drawing, and wait for each redraw that the browser does not report, in seconds.
MAX_PAUSE, MAX_WAIT = 5.0, 10.0
#: Seconds between two looks for the browser's report.
LOOK_AGAIN = 0.05


class BrowserPace(Component):
    """Invisible component that measures how long the browser takes to draw.

    A message is a pair: the number of the redraw that the browser has drawn, and the milliseconds from its
    beginning until it was on the screen. Or it is ``["settled", number]``: the number is sent back as soon as
    nothing is left to draw of what the viewer did before.
    """

    begun = param.Integer(default=0, doc="Number of redraws whose first part was sent.")
    sent = param.Integer(default=0, doc="Number of redraws that were sent.")

    _esm = read_assets("panels/session/drawn.js", "panels/session/browser_pace.js")

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._drawn = 0
        self._sent_at = self._free_at = 0.0

    @property
    def wait(self) -> float:
        """Seconds until the browser has time for news; 0 for a browser that never reports."""
        now = time.monotonic()
        # A suspended page does not report. It gets ever fewer redraws: they pile up in the process's memory.
        if 0 < self._drawn < self.sent and now - self._sent_at < MAX_WAIT * (self.sent - self._drawn):
            return LOOK_AGAIN
        return max(0.0, self._free_at - now)

    def begin(self) -> None:
        """Tell the browser that a redraw begins."""
        self.begun += 1

    def end(self) -> None:
        """Tell the browser that a redraw is complete."""
        self._sent_at = time.monotonic()
        self.sent += 1

    def receive(self, message: Any) -> None:
        """Note what the browser has drawn, or answer its question. The message comes from the browser."""
        number, took = pair_of(message)
        if number == "settled" and type(took) is int:
            self._answer_when_settled(took)
        elif isinstance(number, int) and isinstance(took, int | float) and math.isfinite(took):
            self._note_drawn(number, took)

    def _answer_when_settled(self, number: int) -> None:
        loop = drawing_loop()
        if loop is not None:
            loop.when_settled(partial(self.send, number))

    def _note_drawn(self, drawn: int, took: float) -> None:
        if self._drawn < drawn <= self.sent:
            self._drawn = drawn
            pause = max(0.0, took) / 1000 * (1 / SHARE - 1)
            self._free_at = time.monotonic() + min(pause, MAX_PAUSE)
