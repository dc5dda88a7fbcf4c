"""The group of a sample without a browser: a row per rollout of an agent, and those that were discarded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rlpanel.api.open_run import open_run
from rlpanel.panels.compare.siblings import rollout_summary
from rlpanel.panels.groups.group_samples import GroupSamples, own_words
from rlpanel.panels.session.context import Context
from rlpanel.texts.shorten import last_line
from tests.factories import append, sample

Rollout = tuple[float, list[str], dict[str, Any]]


def messages(tools: list[str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for tool in tools:
        made.append({"role": "assistant", "content": "", "tool_calls": [{"name": tool, "arguments": "{}"}]})
        made.append({"role": "tool", "content": "result", "is_error": tool == "broken"})
    return [*made, {"role": "assistant", "content": f"I have\ndone {len(tools)}."}]


def opened(folder: Path, rollouts: list[Rollout]) -> tuple[GroupSamples, list[str]]:
    """Show the group of the first rollout; the list gets the notes about it."""
    lines = [
        sample(1, index=at, group="a", reward=reward, tokens=False, messages=messages(tools),
               prompt_messages=1, drop=["prompt", "response"], timing={"total": 10.0 * (at + 1)}, **fields)
        for at, (reward, tools, fields) in enumerate(rollouts)
    ]  # fmt: skip
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    index = open_run(folder, follow=False).index
    context, notes = Context(), list[str]()
    context.param.update(index=index, view=index.view)
    context.choose_sample(index.snapshot.uids(index.snapshot.alive_rows)[0])
    view = GroupSamples(context, notes.append)
    view.active = True
    return view, notes


def numbers(view: GroupSamples, at: int) -> dict[str, str]:
    return {name: text for _, text, _, name in view.cards[at]["numbers"]}


def test_an_agents_rollout_has_a_row_with_its_numbers_and_lines(tmp_path: Path) -> None:
    view, _ = opened(tmp_path, [(0.0, ["ls", "broken"], {"status": "timeout"}), (1.0, ["ls", "read"], {})])
    shown = numbers(view, 0)
    names = ("rollout", "reward", "turns", "tool_errors", "seconds", "status")
    assert [shown[name] for name in names] == ["1", "0", "3", "1", "10", "timeout"]
    assert numbers(view, 1)["status"] == "–"
    rows = view.context.snapshot.alive_rows.tolist()
    said = [rollout_summary(view.context.snapshot, row) for row in rows]
    assert said == ["3 turns, 1 error, timeout", "3 turns, 0 errors"]
    last, own = view.cards[0]["lines"]
    assert last == ["last line", "done 2."]
    assert own[0] == "parts with"
    assert own[1].startswith("[assistant] [call] broken")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ([{"status": "discarded"}], "2 of 3 rollouts; 1 was discarded by the trainer"),
        (
            [{"status": "environment_error"}, {"status": "discarded"}],
            "2 of 4 rollouts; 1 was discarded by the trainer; 1 failed by its environment",
        ),
        ([{"split": "discarded"}], "2 of 3 rollouts; 1 was discarded by the trainer"),
        ([], ""),
    ],
)
def test_rollouts_that_do_not_count_are_shown_and_said(
    tmp_path: Path, gone: list[dict[str, Any]], said: str
) -> None:
    rollouts: list[Rollout] = [(0.0, ["ls"], {}), (1.0, ["read"], {})]
    view, notes = opened(tmp_path, rollouts + [(0.0, ["x"], fields) for fields in gone])
    assert len(view.cards) == 2 + len(gone)
    assert notes[-1].endswith(said) if said else "rollouts;" not in notes[-1]
    if gone:
        assert numbers(view, 2)["status"] in ("discarded", "environment_error")


def test_a_rollout_whose_group_was_discarded_is_not_alone(tmp_path: Path) -> None:
    view, notes = opened(tmp_path, [(0.0, ["ls"], {}), (1.0, ["ls"], {"status": "discarded"})])
    assert len(view.cards) == 2
    assert notes[-1] == "1 of 2 rollouts; 1 was discarded by the trainer"


def test_the_own_words_are_the_line_where_the_longest_shared_beginning_ends() -> None:
    assert own_words(["a\nb\nc", "a\nb\nd", "a\nx"]) == ["c", "d", "x"]
    assert own_words(["alone"]) == ["alone"]
    assert own_words(["same", "same"]) == ["nothing of its own"] * 2
    chance = random.Random(0)
    for _ in range(100):
        texts = ["".join(chance.choices("ab\n", k=chance.randint(1, 12))) for _ in range(5)]
        for at, (text, own) in enumerate(zip(texts, own_words(texts), strict=True)):
            others = texts[:at] + texts[at + 1 :]
            begins = [any(other.startswith(text[:n]) for other in others) for n in range(len(text) + 1)]
            shared = begins.index(False) - 1 if False in begins else len(text)
            line = text[text.rfind("\n", 0, shared) + 1 :]
            assert own == ("nothing of its own" if shared == len(text) else " ".join(line.split()))


def test_the_last_line_is_one_with_words() -> None:
    assert last_line("a\n b \n\n  ") == "b"
    assert last_line("") == "–"
