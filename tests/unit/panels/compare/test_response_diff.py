"""Texts that a response can be compared with, and the diff, without a browser."""

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

LINES = [
    sample(1, index=0, prompt="p", group="a", response="one", reward=0.25),
    sample(1, index=1, prompt="p", group="a", response="two", reward=0.5),
    sample(1, index=2, prompt="q", group="b", response="alone", drop=["ref_response"]),
    sample(2, index=0, prompt="p", group="a", response="later", reward=0.75),
    sample(4, index=0, prompt="p", group="c", response="last", reward=1.0),
]


def opened(folder: Path, lines: list[dict[str, Any]], at: int = 0) -> ResponseDiff:
    folder.mkdir(exist_ok=True)
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    index = open_run(folder, follow=False).index
    context = Context()
    context.param.update(index=index, view=index.view)
    context.choose_sample(index.snapshot.uids(index.snapshot.alive_rows)[at])
    return ResponseDiff(context, active=True)


def kind(view: ResponseDiff) -> Select:
    return part_of(view, Select, label="Compare with")


def other(view: ResponseDiff) -> Select:
    return part_of(view, Select, label="Other sample")


def offered(view: ResponseDiff) -> dict[str, str]:
    view.param.trigger("active")
    return kind(view).options


def test_only_what_exists_is_offered(tmp_path: Path) -> None:
    assert list(offered(opened(tmp_path, LINES, 2))) == ["Ground truth"]
    assert list(offered(opened(tmp_path / "b", LINES, 0))) == [
        "Another sample of the group (1)",
        "Reference response",
        "Ground truth",
        "Same prompt at another step (2)",
    ]


def test_samples_without_a_group_label_belong_together_by_their_prompt(tmp_path: Path) -> None:
    lines = [{key: value for key, value in line.items() if key != "group"} for line in LINES]
    assert "Another sample of the group (1)" in offered(opened(tmp_path, lines))


def test_a_group_label_counts_more_than_the_prompt(tmp_path: Path) -> None:
    lines = [sample(1, index=index, prompt="p", group=group) for index, group in enumerate("aba")]
    assert "Another sample of the group (1)" in offered(opened(tmp_path, lines))


def test_samples_without_a_prompt_have_no_others(tmp_path: Path) -> None:
    lines = [sample(step, index=step, drop=["prompt", "group"]) for step in (1, 1, 2)]
    assert list(offered(opened(tmp_path, lines))) == ["Reference response", "Ground truth"]


def test_the_step_before_is_the_first_choice(tmp_path: Path) -> None:
    view = opened(tmp_path, LINES, 3)
    offered(view)
    kind(view).value = "step"
    assert list(other(view).options) == ["step 1 · reward 0.25", "step 4 · reward 1"]
    assert other(view).value == other(view).options["step 1 · reward 0.25"]
    assert "Step 1" in part_of(view, Html).html


def test_the_chosen_comparison_is_kept_for_the_next_sample(tmp_path: Path) -> None:
    view = opened(tmp_path, LINES, 0)
    offered(view)
    kind(view).value = "truth"
    uids = view.context.snapshot.uids(view.context.snapshot.alive_rows)
    view.context.choose_sample(uids[1])
    assert kind(view).value == "truth"


def test_nothing_is_read_before_the_tab_is_in_sight(tmp_path: Path) -> None:
    view = opened(tmp_path, LINES)
    view.active = False
    view.context.choose_sample(view.context.snapshot.uids(view.context.snapshot.alive_rows)[2])
    assert "alone" not in part_of(view, Html).html


def test_nothing_to_compare_with_is_said(tmp_path: Path) -> None:
    lines = [sample(1, drop=["ref_response", "ground_truth", "group"])]
    view = opened(tmp_path, lines)
    offered(view)
    assert "Nothing to compare with" in part_of(view, Html).html


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "a & b <b>c</b>"])
def test_markup_is_escaped_on_both_sides(tmp_path: Path, text: str) -> None:
    line = sample(1, response=f"{text} here", ground_truth=f"{text} there", drop=["ref_response"])
    view = opened(tmp_path, [line])
    offered(view)
    assert "<img" not in part_of(view, Html).html
    assert "<b>c" not in part_of(view, Html).html
    assert "&lt;" in part_of(view, Html).html
