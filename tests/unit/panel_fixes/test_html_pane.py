"""HTML panes: a change sends the text, and never an address of a CDN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.models import ImportedStyleSheet
from markupsafe import Markup

from rlpanel.app.page.page_template import apply_template
from rlpanel.panel_fixes.html_pane import HtmlPane

PACKAGE = Path(__file__).parents[4] / "rlpanel"


def test_a_change_before_the_model_is_part_of_the_page_asks_no_cdn() -> None:
    document = Document()
    apply_template(document, "")
    pane = HtmlPane("a", stylesheets=[":host { color: red; }"])
    model = pane.get_root(document)
    assert model.document is None
    pane.object = "b"
    assert model.text == "b"
    urls = [sheet.url for sheet in model.stylesheets if isinstance(sheet, ImportedStyleSheet)]
    assert urls
    assert not any(url.startswith("http") for url in urls)


def test_markup_is_sent_as_the_same_text_as_a_string() -> None:
    pane = HtmlPane("<b>a</b>")
    model = pane.get_root()
    sent = model.text
    pane.object = ""
    pane.object = Markup("<b>a</b>")
    assert (model.text, type(model.text)) == (sent, str)


def test_panels_use_no_other_html_pane() -> None:
    others = [path for path in PACKAGE.rglob("*.py") if path.name != "html_pane.py"]
    assert [path.name for path in others if "pane.HTML(" in path.read_text("utf-8")] == []


@pytest.mark.upstream_fault
def test_panels_own_pane_still_makes_its_sheets_again() -> None:
    document = Document()
    apply_template(document, "")
    pane = pn.pane.HTML("a")
    model: Any = pane.get_root(document)
    pane.object = "b"
    urls = [sheet.url for sheet in model.stylesheets if isinstance(sheet, ImportedStyleSheet)]
    assert any(url.startswith("http") for url in urls)
