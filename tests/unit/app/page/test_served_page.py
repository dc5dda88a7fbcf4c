"""The page of a document."""

from __future__ import annotations

from bokeh.document import Document

from rlpanel.app.page.served_page import page_of


def test_a_document_without_a_page_has_none() -> None:
    assert page_of(Document()) is None
