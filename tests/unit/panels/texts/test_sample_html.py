"""The tabs of a sample."""

from __future__ import annotations

from rlpanel.panels.texts.sample_texts import extra_html, prompt_block
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import ANY, TextPredicate
from rlpanel.texts.prompt_parts import TextStyle

PROMPT = "[system] Be <b>kind</b>.\n[user] What is 2 + 2?"


def test_a_further_key_nested_beyond_what_can_be_written_is_named() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "<td>deep</td><td>nested too deeply to be shown</td>" in extra_html(
        Sample(uid="a:0", step=1, extra={"deep": deep})
    )


def block(*tests: TextPredicate) -> str:
    return prompt_block(Sample(uid="a:0", step=1, prompt=PROMPT), TextStyle(), tests)


def test_a_prompt_is_a_line_with_its_question_that_opens() -> None:
    assert block().startswith('<details class="prompt"><summary>')
    assert "<span>What is 2 + 2?</span></summary>" in block()
    assert "<summary>system · 15 characters</summary>" in block()
    assert prompt_block(Sample(uid="a:0", step=1), TextStyle()) == ""


def test_what_was_found_in_it_opens_it_and_its_parts() -> None:
    for html in (
        block(TextPredicate(ANY, "contains", "KIND")),
        block(TextPredicate("prompt", "matches", "kind")),
    ):
        assert html.startswith('<details class="prompt" open>')
        assert "<details open><summary>system · 15 characters" in html
        assert "Be &lt;b&gt;<mark>kind</mark>&lt;/b&gt;." in html
    assert block(TextPredicate("response", "contains", "kind")) == block()
