"""A document that is serialised before its browser asks for it."""

from __future__ import annotations

import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from bokeh.models.widgets import Div

from rlpanel.panel_fixes.prepared_document import serialize_ahead


def document_of(text: str) -> tuple[Document, Div]:
    """A document with one text."""
    document, div = Document(), Div(text=text)
    document.add_root(div)
    document.add_root(ColumnDataSource({"x": [1, 2]}))
    return document, div


def test_the_result_is_what_the_document_would_give_and_is_given_once() -> None:
    document, _ = document_of("before")
    expected = document.to_json().content
    serialize_ahead(document)
    first = document.to_json()
    assert first.content == expected
    assert not document.models._new_models
    assert document.to_json() is not first
    assert document.to_json(deferred=False)["roots"]


def test_a_change_of_the_document_is_in_the_result() -> None:
    document, div = document_of("before")
    serialize_ahead(document)
    div.text = "after"
    assert "after" in repr(document.to_json().content)
    div.text = "later"
    assert "later" in repr(document.to_json().content)


@pytest.mark.upstream_fault
def test_bokeh_still_serialises_an_unchanged_document_again() -> None:
    document, _ = document_of("same")
    assert document.to_json() is not document.to_json()
