"""Tables whose clicks reach Python by what the browser shows, not by a row's number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import panel as pn


def click_field(pick: Callable[[Any], None]) -> pn.widgets.TextInput:
    """An unseen field that a table's script writes into; ``pick``, a view's method, gets each change of it.

    Panel keeps the scripts of a table, and so this field, for as long as there is the table, and whatever is
    reached from them is kept with them: a strong hold on the view, whose table it is, would never end.
    """
    field, method = pn.widgets.TextInput(visible=False), WeakMethod(pick)

    def tell(event: Any) -> None:
        found = method()
        if found is not None:
            found(event)

    field.param.watch(tell, "value")
    return field


class ClickTable(pn.widgets.Tabulator):
    """A read-only table whose clicks go to `click_field` by a script, and nowhere else."""

    def _process_event(self, event: Any) -> None:
        # For a click Panel would look up the row's number, which may be one of an older page; it raises where
        # there are fewer rows now.
        if event.event_name == "selection-change":
            super()._process_event(event)
