"""Labels in the language of a document or of a job."""

from __future__ import annotations

import json
import threading

from bokeh.document import Document
from markupsafe import Markup
from panel.io.state import set_curdoc

from rlpanel.panels.language.labels import (
    CHINESE,
    ENGLISH,
    browser_labels,
    current_language,
    set_document_language,
    tr,
    tr_html,
    trn,
    using,
)


def test_labels_are_english_without_a_document() -> None:
    assert (current_language(), tr("Conversation")) == (ENGLISH, "Conversation")
    assert [trn("{count} rank", "{count} ranks", count) for count in (0, 1, 2)] == [
        "0 ranks",
        "1 rank",
        "2 ranks",
    ]


def test_each_document_has_its_language() -> None:
    chinese, english, wrong = Document(), Document(), Document()
    set_document_language(chinese, CHINESE)
    set_document_language(wrong, "../../x")
    with set_curdoc(chinese):
        assert tr("Conversation") == "对话"
        assert trn("{count} rank", "{count} ranks", 2) == "2 个 rank"
    for document in (english, wrong):
        with set_curdoc(document):
            assert tr("Conversation") == "Conversation"


def test_values_replace_the_placeholders_of_a_label() -> None:
    for language, shown in ((ENGLISH, "1,000 only in {a}"), (CHINESE, "1,000 个仅在 {a} 中")):
        with using(language):
            assert tr("{count:,} only in {run}", count=1000, run="{a}") == shown
    assert tr("{text!r} of {total:,}", text="a", total=1000) == "'a' of 1,000"
    assert trn("{count:,} sample of {name}", "{count:,} samples of {name}", 2000, name="a") == (
        "2,000 samples of a"
    )


def test_a_label_without_values_keeps_its_braces() -> None:
    assert tr("{count}") == "{count}"


def test_values_in_html_are_escaped_unless_they_are_html() -> None:
    name = "<script>alert('{name}')</script>"
    escaped = "&lt;script&gt;alert(&#39;{name}&#39;)&lt;/script&gt;"
    label = tr_html(
        '<b title="{name}">{name}</b> {count:,} {more}', name=name, count=1000, more=Markup("<br>")
    )
    assert label == f'<b title="{escaped}">{escaped}</b> 1,000 <br>'
    assert tr_html("<i>{label}</i>", label=label) == f"<i>{label}</i>"


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
