"""Labels in the language of a document or of a job."""

from __future__ import annotations

import json
import threading

from bokeh.document import Document
from panel.io.state import set_curdoc

from rlpanel.panels.language.labels import (
    CHINESE,
    ENGLISH,
    browser_labels,
    current_language,
    set_document_language,
    tr,
    trn,
    using,
)
from rlpanel.panels.language.table_labels import pager_labels


def test_labels_are_english_without_a_document() -> None:
    assert (current_language(), tr("Conversation")) == (ENGLISH, "Conversation")
    assert [trn("{count} rank", "{count} ranks", count) for count in (0, 1, 2)] == [
        "{count} ranks",
        "{count} rank",
        "{count} ranks",
    ]
    assert pager_labels() == {}


def test_each_document_has_its_language() -> None:
    chinese, english, wrong = Document(), Document(), Document()
    set_document_language(chinese, CHINESE)
    set_document_language(wrong, "../../x")
    with set_curdoc(chinese):
        assert tr("Conversation") == "对话"
        assert trn("{count} rank", "{count} ranks", 2) == "{count} 个 rank"
        assert pager_labels()["langs"]["zh-cn"]["pagination"]["next"] == "下页"
    for document in (english, wrong):
        with set_curdoc(document):
            assert tr("Conversation") == "Conversation"


def test_a_thread_has_the_language_that_it_is_given() -> None:
    found: list[str] = []

    def job() -> None:
        found.append(tr("Conversation"))
        with using(CHINESE):
            found.append(tr("Conversation"))
        found.append(tr("Conversation"))

    with using(CHINESE):
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
    assert found == ["Conversation", "对话", "Conversation"]


def test_a_text_without_translation_stays() -> None:
    with using(CHINESE):
        assert (tr("kl_k3_mean"), tr("")) == ("kl_k3_mean", "")


def test_labels_of_scripts_cannot_end_their_element() -> None:
    labels = browser_labels(CHINESE)
    assert json.loads(labels)["Follow latest"] == "跟随最新"
    assert "<" not in labels
    assert browser_labels(ENGLISH) == "{}"
