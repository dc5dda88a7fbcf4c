"""What the viewer clicked in a table, told by the browser."""

from __future__ import annotations

from typing import Any, ClassVar

import panel as pn


class Picked(pn.widgets.TextInput):
    """A field that nobody sees, to which a script in the browser writes.

    Its value is taken at once: Panel waits 50 ms for more of what is typed, and here nobody types.
    """

    _priority_changes: ClassVar[list[str]] = ["value"]

    def __init__(self, **params: Any) -> None:
        super().__init__(visible=False, **params)
