"""Pages of one run share what was read of its prompts."""

from __future__ import annotations

import gc
from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.panels.prompts.prompt_results import PromptResults, read_results, reading_of
from tests.factories import write_run


def test_pages_of_a_run_share_its_grid_and_costs_until_the_last_is_closed(tmp_path: Path) -> None:
    with open_run(write_run(tmp_path / "run", steps=3, prompt="How many?"), follow=False) as run:
        pages = [reading_of(run.index, run.snapshot) for _ in range(2)]
        first, second = (list(read_results(run.snapshot, page, 3))[-1] for page in pages)
        other = list(read_results(run.snapshot, pages[0], 2))[-1]
        assert isinstance(first, PromptResults)
        assert isinstance(second, PromptResults)
        assert isinstance(other, PromptResults)
        assert first.costs is second.costs
        assert other.costs is not first.costs
        assert other.costs.grid is first.costs.grid
        builder = pages[0].builder
        del pages
        gc.collect()
        assert reading_of(run.index, run.snapshot).builder is not builder
