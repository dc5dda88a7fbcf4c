"""The texts in the grid's cells."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import rlpanel
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from tests.factories import append, line

PROMPT = (
    "<|im_start|>system\nYou are kind. Never mention elephants.<|im_end|>\n<|im_start|>user\n"
    "What is {} + 1?<|im_end|>\n<|im_start|>assistant\n"
)


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleGrid:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [
        line(1, index=at, prompt=PROMPT.format(at), response=f"<|endoftext|>It is {at}, as I said</s></s>")
        for at in range(3)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    run = rlpanel.open_run(folder, follow=False)
    context = Context(index=run.index)
    context.view = run.view
    return SampleGrid(context)


def cells(grid: SampleGrid, name: str) -> list[str]:
    frame: pd.DataFrame = grid.table.frame
    return frame[name].tolist()


def test_a_narrow_cell_leaves_out_a_short_shared_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "rhymes"
    folder.mkdir()
    prompts = [f"Write a line that rhymes with: the river {at}" for at in range(4)]
    lines = [line(1, index=at, prompt=text) for at, text in enumerate(prompts)]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    run = rlpanel.open_run(folder, follow=False)
    context = Context(index=run.index)
    context.view = run.view
    grid = SampleGrid(context)
    assert cells(grid, "prompt") == [f"…the river {at}" for at in range(4)]
    grid.context.selection.search = "rhymes"
    assert all("rhymes" in cell for cell in cells(grid, "prompt"))


def test_a_prompt_is_its_last_user_turn_and_a_response_has_no_padding(grid: SampleGrid) -> None:
    assert cells(grid, "prompt") == [f"What is {at} + 1?" for at in range(3)]
    assert cells(grid, "response") == [f"It is {at}, as I said</s>" for at in range(3)]


def test_the_setting_switches_it_off(grid: SampleGrid) -> None:
    grid.context.display.fold_templates = False
    assert cells(grid, "prompt") == [PROMPT.format(at).strip() for at in range(3)]


@pytest.mark.parametrize("name", ["search", "filter"])
def test_a_cell_shows_the_place_that_was_found(grid: SampleGrid, name: str) -> None:
    words = {"search": "ELEPHANT", "filter": 'prompt contains "ELEPHANT"'}
    setattr(grid.context.selection, name, words[name])
    assert cells(grid, "prompt") == ["…elephants."] * 3
    assert cells(grid, "response")[0] == "It is 0, as I said</s>"
    assert [test.value for test in grid.context.text_conditions] == ["ELEPHANT"]
    setattr(grid.context.selection, name, "")
    assert cells(grid, "prompt")[0] == "What is 0 + 1?"
    assert grid.context.text_conditions == ()


def test_a_place_at_the_end_of_a_response_leads_its_cell(grid: SampleGrid) -> None:
    grid.context.selection.search = "/as . said/"
    assert cells(grid, "response")[2].startswith("…as I said")
    assert cells(grid, "prompt")[2] == "What is 2 + 1?"
