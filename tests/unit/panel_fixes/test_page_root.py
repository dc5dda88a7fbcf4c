"""The page's root, whose models are created before it is shown."""

from __future__ import annotations

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.document.models import DocumentModelManager

from rlpanel.panel_fixes.page_root import CHILDREN_PER_MESSAGE, PageRoot


def texts(document: Document) -> list[str]:
    return [model.text for model in document.select({"type": pn.models.HTML})]


def add_all(root: PageRoot, document: Document) -> None:
    for step in root.add_to_document(document):
        step()


def test_the_document_holds_all_children() -> None:
    document = Document()
    root = PageRoot(pn.pane.HTML("a"), pn.Column(pn.pane.HTML("b")))
    root.create_models(root[1], document)
    assert not document.roots
    add_all(root, document)
    assert len(document.roots) == 1
    assert sorted(texts(document)) == ["a", "b"]


def test_a_change_before_the_root_is_added_is_kept() -> None:
    document = Document()
    pane = pn.pane.HTML("before")
    root = PageRoot(pn.Column(pane))
    root.create_models(root[0], document)
    pane.object = "after"
    add_all(root, document)
    assert texts(document) == ["after"]


def test_a_change_after_the_root_is_added_reaches_the_document() -> None:
    document = Document()
    pane = pn.pane.HTML("before")
    root = PageRoot(pn.Column(pane))
    root.create_models(root[0], document)
    add_all(root, document)
    pane.object = "after"
    assert texts(document) == ["after"]


def test_children_of_a_late_layout_follow_a_few_at_a_time() -> None:
    document = Document()
    late = pn.Row(*(pn.pane.HTML(text) for text in "abcd"))
    root = PageRoot(pn.pane.HTML("first"), pn.Column(late))
    root.create_models(late, document)
    first, *steps = root.add_to_document(document, [late])
    first()
    assert texts(document) == ["first"]
    seen = []
    for step in steps:
        step()
        seen.append(len(texts(document)) - 1)
    assert seen == [CHILDREN_PER_MESSAGE, 4]


def test_a_late_layout_may_contain_another_one() -> None:
    document = Document()
    inner = pn.Row(pn.pane.HTML("c"), pn.pane.HTML("d"))
    outer = pn.Column(pn.pane.HTML("b"), pn.Column(inner))
    root = PageRoot(pn.pane.HTML("a"), outer)
    root.create_models(outer, document)
    seen = []
    for step in root.add_to_document(document, [outer, inner]):
        step()
        seen.append("".join(sorted(texts(document))))
    assert seen == ["a", "ab", "abcd"]


@pytest.mark.upstream_fault
def test_a_child_of_a_shown_column_still_makes_all_models_be_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    document, column = Document(), pn.Column(*(pn.pane.HTML(text) for text in "abcdefgh"))
    document.add_root(column.get_root(document))
    visits = list[DocumentModelManager]()
    recompute = DocumentModelManager.recompute

    def counted(models: DocumentModelManager) -> None:
        visits.append(models)
        recompute(models)

    monkeypatch.setattr(DocumentModelManager, "recompute", counted)
    column.append(pn.pane.HTML("i"))
    assert visits
