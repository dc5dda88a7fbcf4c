"""The notice about guessed fields: names, keys and confidence as text, and the way to change them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlpanel.panels.session.context import Context
from rlpanel.panels.status.notices import GuessNotice, guess_html
from rlpanel.sources.inference.infer import infer
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.page_parts import send

GUESSED = infer([{"question": f"q{at}", "completion": f"a{at}", "passed": at % 2} for at in range(4)])


def shown(*, read_only: bool = False) -> tuple[Context, GuessNotice]:
    snapshot = replace(Snapshot("run"), inferences=(GUESSED,))
    context = Context(read_only=read_only, view=RunView(snapshot))
    return context, GuessNotice(context)


def test_it_names_the_keys_and_opens_the_form() -> None:
    context, notice = shown()
    assert notice.visible
    assert "response ← <code>completion</code> 96%" in notice.html
    assert "no step: all samples are step 0" in notice.html
    send(notice, "change")
    assert context.mapping_form == "open"


def test_it_is_hidden_for_this_run_only() -> None:
    context, notice = shown()
    send(notice, "hide")
    assert not notice.visible
    context.view = RunView(replace(Snapshot("other"), inferences=(GUESSED,)))
    assert notice.visible
    context.view = RunView(Snapshot("third"))
    assert not notice.visible


def test_whoever_may_write_nothing_changes_nothing() -> None:
    context, notice = shown(read_only=True)
    assert notice.visible
    assert notice.buttons["change"] == ""
    send(notice, "change")
    assert context.mapping_form == "auto"


@pytest.mark.parametrize("key", ["<script>alert(1)</script>", "x" * 100_000])
def test_a_key_is_short_text(key: str) -> None:
    guess = replace(GUESSED.guesses[0], key=key)
    html = guess_html([replace(GUESSED, guesses=(guess,))])
    assert "<script" not in html
    assert len(html) < 2000
