"""The rollout of the group that a sample is shown beside, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from panel.widgets import Select

from rlpanel.api.open_run import open_run
from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.region import Html
from tests.factories import append, sample
from tests.page_parts import part_of


def opened(folder: Path, rollouts: list[tuple[float | None, str]], at: int, **fields: Any) -> ResponseDiff:
    """Open the comparison of a rollout of a group; each has a reward and a response."""
    lines = [
        sample(1, index=place, prompt="p", group="a", reward=reward, response=text, tokens=False,
               **(fields if place == len(rollouts) - 1 else {}))
        for place, (reward, text) in enumerate(rollouts)
    ]  # fmt: skip
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    index = open_run(folder, follow=False).index
    context = Context()
    context.param.update(index=index, view=index.view)
    rows = index.snapshot.alive_rows
    context.choose_sample(index.snapshot.uids(rows)[at])
    view = ResponseDiff(context, active=True)
    view.param.trigger("active")
    return view


def beside(view: ResponseDiff) -> str:
    """Return the label of the chosen rollout."""
    select = part_of(view, Select, label="Other sample")
    return next(label for label, uid in select.options.items() if uid == select.value)


GROUP: list[tuple[float | None, str]] = [
    (0.0, "one two x"),
    (1.0, "one y"),
    (1.0, "one two z"),
    (0.5, "one two x"),
]


@pytest.mark.parametrize(
    ("at", "wanted"),
    [(0, "rollout 3 · reward 1"), (1, "rollout 1 · reward 0"), (3, "rollout 3 · reward 1")],
    ids=["failing", "succeeding", "between"],
)
def test_the_failing_stands_beside_the_succeeding_one_that_begins_alike(
    tmp_path: Path, at: int, wanted: str
) -> None:
    view = opened(tmp_path, GROUP, at)
    assert beside(view) == wanted
    said = part_of(view, Html).html
    assert ("the lowest reward of the group" if at == 1 else "the highest reward of the group; of 2 ") in said
    assert f"Rollout {at + 1} of 4" in said


def test_another_choice_is_not_said_to_be_proposed(tmp_path: Path) -> None:
    view = opened(tmp_path, GROUP, 0)
    select = part_of(view, Select, label="Other sample")
    select.value = select.options["rollout 2 · reward 1"]
    assert "chosen here" not in part_of(view, Html).html


@pytest.mark.parametrize("reward", [1.0, None])
def test_of_equal_rewards_the_nearest_is_chosen(tmp_path: Path, reward: float | None) -> None:
    view = opened(tmp_path, [(reward, text) for _, text in GROUP], 0)
    assert beside(view).startswith("rollout 4")


def test_a_discarded_rollout_is_offered_and_marked(tmp_path: Path) -> None:
    view = opened(tmp_path, GROUP, 0, status="discarded")
    assert "rollout 4 · reward 0.5 · discarded" in part_of(view, Select, label="Other sample").options
