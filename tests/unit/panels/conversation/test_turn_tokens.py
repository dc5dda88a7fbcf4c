"""Tokens of each turn: by the loss mask, by texts, and what is said where neither tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlpanel import open_run
from rlpanel.analysis.text_turns import conversation_of
from rlpanel.panels.conversation.blocks import turn_tokens


def say(role: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def test_runs_of_the_loss_mask_are_the_policys_messages() -> None:
    response = [say("assistant", "a b"), say("tool", "x"), say("assistant", "c")]
    found = turn_tokens(response, ["a", " b", "x", "c"], np.array([1, 1, 0, 1.0]))
    assert found.spans == [(0, 2), (2, 3), (3, 4)]
    assert (found.method, found.note) == ("loss mask", "")


def test_two_results_between_two_turns_are_told_apart_by_their_texts() -> None:
    response = [say("assistant", "go"), say("tool", "one"), say("tool", "two"), say("assistant", "end")]
    found = turn_tokens(response, ["go", "\n", "one", "\n", "two", "end"], np.array([1, 0, 0, 0, 0, 1.0]))
    assert found.spans == [(0, 1), (2, 3), (4, 5), (5, 6)]


def test_without_a_mask_texts_are_searched_in_order() -> None:
    response = [say("assistant", "same"), say("tool", "same"), say("assistant", "same")]
    found = turn_tokens(response, ["same", "|", "same", "|", "same"], None)
    assert found.spans == [(0, 1), (2, 3), (4, 5)]
    assert (found.method, found.note) == ("texts", "")


def test_a_mask_that_contradicts_the_texts_is_reported() -> None:
    response = [say("assistant", "first"), say("tool", "second"), say("assistant", "third")]
    found = turn_tokens(response, ["second", "x", "first", "third"], np.array([1, 0, 0, 1.0]))
    assert found.spans[0] == (0, 1)
    assert "stand at other tokens" in found.note


def test_texts_that_do_not_occur_are_reported() -> None:
    response = [say("assistant", "here"), say("tool", "nowhere")]
    found = turn_tokens(response, ["here", "else"], None)
    assert found.spans == [(0, 1), None]
    assert "1 of 2 messages" in found.note
    none = turn_tokens([say("assistant", "p"), say("tool", "q")], ["x"], None)
    assert none.spans == [None, None]
    assert none.method == ""
    assert none.note


def test_no_tokens_is_no_note() -> None:
    found = turn_tokens([say("assistant", "a"), say("tool", "b")], [], None)
    assert (found.spans, found.note) == ([None, None], "")


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=2, max_size=8))
def test_spans_of_a_masked_episode_hold_the_messages_texts(turns: list[list[str]]) -> None:
    """Turns of the policy and of a tool alternate; each is made of the given tokens."""
    tokens = [token for turn in turns for token in turn]
    mask = np.array([1.0 - at % 2 for at, turn in enumerate(turns) for _ in turn])
    response = [say("tool" if at % 2 else "assistant", "".join(turn)) for at, turn in enumerate(turns)]
    found = turn_tokens(response, tokens, mask)
    ends = np.cumsum([len(turn) for turn in turns]).tolist()
    assert found.spans == list(zip([0, *ends], ends, strict=False))


def test_tokens_of_a_real_recording() -> None:
    with open_run(Path("tests/data/trl_tools"), follow=False) as run:
        first = run.sample(run.samples().uid.iloc[0])
    tokens = first.response_tokens or []
    found = conversation_of(first, tokens)
    spans = turn_tokens(found.messages[1:], tokens, first.loss_mask).spans
    texts = ["".join(tokens[span[0] : span[1]]) if span else "" for span in spans]
    assert texts[0].endswith("</tool_call><|im_end|>")
    assert "<tool_response>" in texts[1]
    assert texts[2] == "The answer is 4.<|im_end|>"
