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


class ClickTable(pn.widgets.Tabulator):
    """A read-only table whose clicks are handled only by a script that writes into `click_field`.

    Only heads have handles to resize columns. Handles in rows would swallow clicks between two cells, and
    each is an element per cell. Tabulator also gets ``row_height``, and measures no cells.
    """

    def __init__(self, value: Any = None, **params: Any) -> None:
        configuration = params.pop("configuration", {})
        if "row_height" in params:
            configuration = {"rowHeight": params["row_height"], **configuration}
        defaults = {"resizable": "header", **configuration.get("columnDefaults", {})}
        super().__init__(value, configuration={**configuration, "columnDefaults": defaults}, **params)

    def _update_style(self, *_: Any, **__: Any) -> None:
        """Send no styles of cells: there are none, and the browser would redraw the table for them."""

    def _process_event(self, event: Any) -> None:
        # Panel would look up the clicked row by its number. The number may be outdated, and Panel raises an
        # error if there are fewer rows by now.
        if event.event_name == "selection-change":
            super()._process_event(event)
