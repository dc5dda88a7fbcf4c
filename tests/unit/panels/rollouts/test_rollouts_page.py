"""The page *Rollouts*: which responses it shows, in which order, and what it sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from panel.widgets import Button, Select

from rlpanel import open_run
from rlpanel.panels.rollouts.rollouts_page import MAX_RESPONSES, RolloutsPage
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.token_view import metric_declarations
from tests.factories import append, sample
from tests.page_parts import part_of


def write(folder: Path, *lines: dict[str, Any]) -> None:
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))


def logged(step: int, index: int, tokens: int = 3, **fields: Any) -> dict[str, Any]:
    words = [f"w{at}" for at in range(tokens)]
    return sample(
        step, index=index, tokens=False, response="".join(words), response_tokens=words,
        logprobs=[-0.5 - index] * tokens, **{"reward": float(index)} | fields,
    )  # fmt: skip


def opened(folder: Path, *lines: dict[str, Any], active: bool = True) -> RolloutsPage:
    write(folder, *lines)
    index = open_run(folder, follow=False).index
    context = Context()
    context.param.update(index=index, view=index.view)
    context.choose_step(1)
    page = RolloutsPage(context)
    page.active = active
    return page


def data(page: RolloutsPage) -> dict[str, Any]:
    return dict(page.view.data)


def rewards(page: RolloutsPage) -> list[float]:
    return [row["value"] for row in data(page)["rows"]]


def lines_of(page: RolloutsPage) -> list[list[float]]:
    values = np.frombuffer(data(page)["values"], "<f4")
    return [part.tolist() for part in np.split(values, np.cumsum(data(page)["sizes"])[:-1])]


def order(page: RolloutsPage, value: str) -> None:
    part_of(page, Select, label="Order").value = value


def test_nothing_is_read_or_sent_before_the_page_is_open(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(1, index) for index in range(4)), active=False)
    page.context.selection.metric = "surprisal"
    assert (page.view.data, page.view.scales) == ({}, {})
    page.active = True
    assert len(data(page)["rows"]) == 4
    before = page.view.data
    page.active = False
    page.context.choose_step(2)
    page.context.selection.metric = "prob"
    assert page.view.data is before


def test_a_line_holds_the_values_of_the_metric_in_its_order(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(1, index, tokens=index + 1, prompt=f"p{index}") for index in range(3)))
    page.context.selection.metric = "surprisal"
    order(page, "reward")
    assert lines_of(page) == [[2.5, 2.5, 2.5], [1.5, 1.5], [0.5]]
    assert [row["tokens"] for row in data(page)["rows"]] == [3, 2, 1]
    part_of(page, Button, name="▼").clicks += 1
    assert rewards(page) == [0.0, 1.0, 2.0]


def test_groups_stand_together_the_best_first(tmp_path: Path) -> None:
    lines = [logged(1, at, group=group, prompt=group, reward=reward) for at, (group, reward) in enumerate(
        [("a", 0.0), ("b", 1.0), ("a", 0.4), ("b", 0.8)]
    )]  # fmt: skip
    page = opened(tmp_path, *lines)
    assert data(page)["grouped"]
    assert [(row["label"], row["value"]) for row in data(page)["rows"]] == [
        ("b", 1.0), ("b", 0.8), ("a", 0.4), ("a", 0.0)
    ]  # fmt: skip
    page.context.first_uid = data(page)["rows"][-1]["uid"]
    part_of(page, Select, label="Responses of").value = "group"
    assert rewards(page) == [0.4, 0.0]


def test_more_than_a_page_is_said_and_can_be_turned(tmp_path: Path) -> None:
    page = opened(
        tmp_path,
        *(logged(1, index, prompt=f"p{index}", drop=["group"]) for index in range(MAX_RESPONSES + 6)),
    )
    assert len(data(page)["rows"]) == MAX_RESPONSES
    assert data(page)["note"] == f"responses 1–{MAX_RESPONSES} of {MAX_RESPONSES + 6} of step 1"
    part_of(page, Button, name="›").clicks += 1
    assert (
        data(page)["note"]
        == f"responses {MAX_RESPONSES + 1}–{MAX_RESPONSES + 6} of {MAX_RESPONSES + 6} of step 1"
    )
    assert len(data(page)["rows"]) == 6
    assert part_of(page, Button, name="›").disabled


def test_only_what_passes_the_grids_filter_is_shown_and_said(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(1, index) for index in range(4)))
    page.context.filtered_uids = frozenset([data(page)["rows"][0]["uid"]])
    assert len(data(page)["rows"]) == 1
    assert "match the grid's search and filters" in data(page)["note"]
    page.context.filtered_uids = frozenset()
    assert "No response" in data(page)["words"]


def test_a_run_without_tokens_says_what_to_log(tmp_path: Path) -> None:
    page = opened(tmp_path, *(sample(1, index=index, tokens=False) for index in range(3)))
    assert "response_tokens" in data(page)["words"]
    assert data(page)["sizes"] == [0, 0, 0]


def test_a_metric_that_is_not_logged_falls_back_to_one_that_is(tmp_path: Path) -> None:
    page = opened(tmp_path, logged(1, 0))
    assert page.view.metric == "log_ratio"
    assert data(page)["metric"] in data(page)["logged"]
    assert set(data(page)["logged"]) <= set(metric_declarations())


def test_a_click_opens_the_token_of_the_sample(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(1, index) for index in range(4)))
    page.view.receive({"want": "open", "row": 1, "token": 2})
    selection = page.context.selection
    assert (selection.uid, selection.token, page.picks) == (data(page)["rows"][1]["uid"], 2, 1)
    assert page.view.chosen == [selection.uid, 2]


def test_texts_are_sent_for_one_response_when_they_are_asked_for(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(1, index) for index in range(4)))
    sent: list[dict[str, Any]] = []
    object.__setattr__(page.view, "send", sent.append)  # what the browser would get
    page.view.receive({"want": "texts", "row": 0})
    assert sent == [{"uid": data(page)["rows"][0]["uid"], "texts": b"w0\xffw1\xffw2\xff"}]


@pytest.mark.parametrize(
    "message", [None, 3, {}, {"want": "open"}, {"want": "open", "row": 99, "token": "x"}]
)
def test_a_browser_may_ask_for_anything(tmp_path: Path, message: Any) -> None:
    page = opened(tmp_path, logged(1, 0))
    page.view.receive(message)
    assert page.context.selection.uid == ""


def test_a_new_step_reads_its_own_responses(tmp_path: Path) -> None:
    page = opened(tmp_path, *(logged(step, index) for step in (1, 2) for index in range(step)))
    assert len(data(page)["rows"]) == 1
    page.context.choose_step(2)
    assert len(data(page)["rows"]) == 2
    assert "step 2" in data(page)["note"]


def test_a_list_that_nobody_declared_colours_the_lines_with_one_set_of_categories(tmp_path: Path) -> None:
    lists = [{"expert": [0, 2, 2], "gate": [0.25, 0.5, -0.25]}, {"expert": [1, 1, 0], "gate": [0.1, 0.2, 0]}]
    page = opened(tmp_path, *(logged(1, index, **fields) for index, fields in enumerate(lists)))
    assert data(page)["logged"][-2:] == ["logged:expert", "logged:gate"]
    page.context.selection.metric = "logged:expert"
    order(page, "reward")
    assert lines_of(page) == [[1, 1, 0], [0, 2, 2]]
    declared = data(page)["lists"]
    assert [name for _, _, name in declared["logged:expert"]["categories"]] == ["0", "1", "2"]
    assert declared["logged:gate"]["categories"] == []
    assert declared["logged:gate"]["label"] == "gate"
