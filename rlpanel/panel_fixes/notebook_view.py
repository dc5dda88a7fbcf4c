"""A column in a notebook cell whose first view and messages can be changed before the browser gets them.

Panel sends changes that are made while the cell's output is built as events before the view. It writes texts
into a script without escaping its end, and handles messages of the browser on whichever thread they arrive.

Upstream: docs/upstream/panel-notebook-views.md
Needed by: Panel 1.9 to 1.10
Delete when: Panel sends no change before its view, escapes scripts, and handles messages on the view's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.model import Model


class NotebookView(pn.Column):
    """A column that is asked about its channel and its messages."""

    def begin(self, model: Model, channel: Any) -> None:
        """Prepare the view's model and its channel to the browser, before the output is built."""

    def run_on_loop(self, handle: Callable[[], object]) -> None:
        """Run what handles a message of the browser on the loop that draws the view."""
        handle()

    def _render_mimebundle(self, model: Model, doc: Document, comm: Any, location: Any = None) -> Any:
        self.begin(model, comm)
        bundle = super()._render_mimebundle(model, doc, comm, location)
        # The bundle contains the changes made while it was built; as events they would precede the view.
        doc.callbacks._held_events = []
        data, metadata = bundle
        return {**data, "text/html": _escape_output(data["text/html"])}, metadata

    def _on_msg(self, ref: str, manager: Any, msg: Any) -> None:
        self.run_on_loop(partial(super()._on_msg, ref, manager, msg))


def _escape_output(output: str) -> str:
    """Escape the script of a cell's output: Panel inserts texts of the log, which could end the script."""
    head, opening, rest = output.partition("<script")
    code, closing, tail = rest.rpartition("</script>")
    return f"{head}{opening}{_escape_script(code)}{closing}{tail}"


def _escape_script(code: str) -> str:
    """Escape sequences in string literals that would end the surrounding script or start a comment."""
    return code.replace("</", "<\\/").replace("<!--", "<\\!--")
