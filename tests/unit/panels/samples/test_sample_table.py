"""Columns of the grid: their order, titles and widths."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import rlpanel
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.samples.sample_table import column_width, columns_of, grid_columns
from rlpanel.panels.session.context import Context
from tests.factories import append, line


@pytest.mark.parametrize(
    ("turns", "calls", "second"),
    [(1, 0, "response_tokens"), (3, 0, "turns"), (1, 2, "turns")],
)
def test_turns_and_tools_lead_where_there_are_any(
    tmp_path: Path, turns: int, calls: int, second: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    fields = {"turns": turns, "tool_calls": calls, "response_tokens": ["a", "b"]}
    append(folder / "log.jsonl", *(line(step, tokens=False, **fields) for step in range(2)))
    columns = grid_columns(rlpanel.open_run(folder, follow=False).snapshot, "kl_k3")
    assert columns[:2] == ["reward", second]
    assert {"turns", "tool_calls"} <= {*columns}


def test_a_title_of_usual_length_is_not_cut() -> None:
    values = {name: [0.5] for name in ("reward", "reward_gap", "x" * 200)}
    usual, longer, longest = (column.width for column in columns_of(pd.DataFrame(values)))
    assert usual < longer
    assert longest < 200


def answers_grid(folder: Path) -> SampleGrid:
    folder.mkdir()
    lines = [
        line(1, index=at, response=rf"so \boxed{{{at}}}", ground_truth="1", reward=0.0, kl=2e-4, tokens=False)
        for at in range(4)
    ]
    append(folder / "log.jsonl", *lines)
    run = rlpanel.open_run(folder, follow=False)
    context = Context(index=run.index)
    context.view = run.view
    return SampleGrid(context)


def titles(grid: SampleGrid) -> list[str]:
    return [column["title"] for column in grid.table.shape["columns"]]


def test_the_answer_stands_beside_the_truth(tmp_path: Path) -> None:
    grid = answers_grid(tmp_path / "run")
    assert titles(grid)[:6] == ["prompt", "response", "reward", "answer", "truth", "match"]
    assert grid.table.frame[["answer", "match"]].to_numpy().tolist() == [
        ["0", "no"], ["1", "yes"], ["2", "no"], ["3", "no"],
    ]  # fmt: skip
    grid.context.selection.filter = "match = yes and reward = 0"
    assert grid.table.frame["answer"].tolist() == ["1"]
    grid.context.display.answer_rule = "line"
    assert grid.table.frame.empty


def test_the_column_of_the_filter_or_the_sort_comes_first(tmp_path: Path) -> None:
    grid = answers_grid(tmp_path / "run")
    assert "rank" in titles(grid)[5:]
    grid.context.selection.filter = "rank = 0"
    assert titles(grid)[:4] == ["prompt", "response", "rank", "reward"]
    grid.context.selection.param.update(filter="", sort="-step")
    assert titles(grid)[:4] == ["prompt", "response", "step", "reward"]


def test_a_run_without_truths_has_no_column_of_answers(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "log.jsonl", line(1, drop=["ground_truth"], response="so 4"))
    run = rlpanel.open_run(folder, follow=False)
    context = Context(index=run.index)
    context.view = run.view
    assert not {"answer", "match", "ground_truth"} & {*SampleGrid(context).table.frame.columns}


@pytest.mark.parametrize(
    ("text", "pixels"), [("Mend the bug number 0.", 131), ("请写出下一句，要求押韵。", 144)]
)
def test_a_column_of_texts_is_hardly_wider_than_they_are(text: str, pixels: int) -> None:
    """The widths in pixels are those that a browser gives these texts at 12 px."""
    column = columns_of(pd.DataFrame({"prompt": [text]}))[0]
    width = column.grow or column.width
    assert pixels + 16 <= width <= 1.35 * (pixels + 16)


def test_widths_only_grow_so_that_a_following_grid_stays_calm() -> None:
    widths: dict[str, int] = {}
    long = columns_of(pd.DataFrame({"prompt": ["x" * 60], "reward": [0.25]}), widths)
    short = columns_of(pd.DataFrame({"prompt": ["x"], "reward": [0.5]}), widths)
    assert long == short
    assert long[0].grow > 400
    [tiny] = columns_of(pd.DataFrame({"prompt": ["x"]}))
    assert tiny.grow == tiny.width, "it grows only as letters do"


def test_the_start_and_the_end_of_a_call_fit_in_the_narrowest_column_of_responses() -> None:
    call = "add(a=2, b=5) → ✗ error"
    [prompt, response, short] = columns_of(
        pd.DataFrame({"prompt": ["x" * 60], "response": [call + " → " + "x" * 60], "ref_response": ["yes"]})
    )
    assert response.width > prompt.width
    assert response.width >= column_width("response", pd.Series([call]))
    assert short.grow == short.width
