"""Output of a cell in a notebook: Panel's own, and that of the column that changes it."""

from __future__ import annotations

from typing import Any

import panel as pn
import pytest
from bokeh.document import Document
from panel.io.notebook import render_mimebundle
from pyviz_comms import Comm

from rlpanel.panel_fixes.notebook_view import NotebookView

CLOSING = "</script>"


def output(column: pn.Column) -> str:
    """Return the HTML of a cell that shows a column."""
    document, comm = Document(), Comm()
    model: Any = column.get_root(document, comm)
    if isinstance(column, NotebookView):
        bundle: Any = column._render_mimebundle(model, document, comm)
    else:
        bundle = render_mimebundle(model, document, comm)
    return str(bundle[0]["text/html"])


def test_a_text_does_not_end_the_script_of_the_output() -> None:
    shown = output(NotebookView(pn.widgets.TextInput(value=f"one {CLOSING} two")))
    assert "one <\\/script> two" in shown
    assert shown.count(CLOSING) == 1


@pytest.mark.upstream_fault
def test_panel_still_lets_a_text_end_the_script_of_the_output() -> None:
    shown = output(pn.Column(pn.widgets.TextInput(value=f"one {CLOSING} two")))
    assert f"one {CLOSING} two" in shown
