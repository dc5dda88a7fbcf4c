"""A table whose clicks are not looked up by their row number, which may be outdated.

Upstream: docs/upstream/panel-tabulator-clicks.md
Needed by: Panel 1.9 to 1.10
Delete when: a click on a row that is gone raises no error, and a table without styles sends none.
"""

from __future__ import annotations

from typing import Any

import panel as pn


class ClickTable(pn.widgets.Tabulator):
    """A read-only table whose clicks are handled only by a script that writes into a hidden field.

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
