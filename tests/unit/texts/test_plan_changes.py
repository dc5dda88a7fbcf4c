"""Which turns count as new plans: by words that begin a sentence, or by tools that were not used before."""

from __future__ import annotations

import pytest

from rlpanel.texts.agent_line import PlanChange, plan_changes


@pytest.mark.parametrize(
    ("words", "evidence"),
    [
        ("Wait, the index is stale.", "Wait"),
        ("The file is empty. Actually, it moved.", "Actually"),
        ("Hmm, let me try another tool.", "let me try another"),
        ("It fails.\nThat didn't work", "That didn't work"),
        ("不行。换一种方法", "换一种"),
        ("I wait for the server.", ""),
        ("We actually know it.", ""),
        ("waiting is over", ""),
        ("", ""),
    ],
)
def test_words_that_begin_a_sentence_begin_a_plan(words: str, evidence: str) -> None:
    first, second = plan_changes([("Wait, I begin.", ()), (words, ())])
    assert first is None  # nothing was planned before
    assert second == (PlanChange("words", evidence) if evidence else None)


def test_a_tool_that_the_three_turns_before_did_not_call_begins_a_plan() -> None:
    tools = ["read", "read", "bash", "edit", "", "edit", "edit", "read", "edit", "bash"]
    found = plan_changes([("", (tool,) if tool else ()) for tool in tools])
    assert [at for at, change in enumerate(found) if change] == [3, 7, 9]
    assert found[3] == PlanChange("tools", "edit")
