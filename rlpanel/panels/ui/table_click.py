"""Table clicks that reach Python as the uid shown in the browser, not as a row number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import panel as pn


def click_field(pick: Callable[[Any], None]) -> pn.widgets.TextInput:
    """Return a hidden input that carries a table click to ``pick``, a method of a view.

    The view is held weakly. Panel keeps a table's scripts, and so this input, as long as the table exists,
    and the view owns the table: a strong reference to the view would leak both.
    """
    field, method = pn.widgets.TextInput(visible=False), WeakMethod(pick)

    def on_change(event: Any) -> None:
        bound = method()
        if bound is not None:
            bound(event)

    field.param.watch(on_change, "value")
    return field
