"""Copied cells: each is executed, and loads what the board shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.app.demo import write_recording
from rlpanel.display_settings import Display
from rlpanel.findings.check import cached_findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.card_export import CardHead
from rlpanel.panels.export.python_cell import MAX_UIDS, curve_cell, finding_cell, sample_cell, samples_cell
from rlpanel.panels.samples.sample_bar import QueryBar
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context, Selection
from rlpanel.schema import Sample
from rlpanel.settings import FindingSettings
from tests.page_parts import parts_of, send

STEP = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recording("grpo_calculator", tmp_path_factory.mktemp("runs") / 'calculator "§1" 中文')


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Run]:
    with open_run(folder, follow=False) as opened:
        yield opened


def context_of(run: Run, display: dict[str, Any] | None = None, **selected: Any) -> Context:
    selection = Selection(**{"step": STEP, "follow": False, "run": run.name, **selected})
    return Context(index=run.index, view=run.view, selection=selection, display=Display(**(display or {})))


def executed(cell: str) -> tuple[dict[str, Any], Any]:
    """Run a cell as a notebook does; return its names, and the value of its last line."""
    *lines, last = cell.strip().split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    try:
        return names, eval(last, names)
    finally:
        names["run"].close()


def test_the_cell_of_the_grid_loads_the_rows_that_the_grid_shows(run: Run) -> None:
    chosen = {"filter": 'tool_errors > 0 and response contains "calculator"', "sort": "-response_tokens"}
    context = context_of(run, **chosen)
    grid = SampleGrid(context)
    [answer] = send(parts_of(grid, QueryBar)[0], {"do": "take", "what": "python"})
    _, samples = executed(answer["cell"])
    shown = grid.table.frame
    assert 0 < len(shown) < 64
    assert list(samples.uid) == list(shown.uid)
    np.testing.assert_allclose(samples.reward, shown.reward)
    assert set(samples.step) == {STEP}


def test_the_cell_of_all_steps_has_the_search_and_no_texts(run: Run) -> None:
    context = context_of(run, scope="run", search="calculator unavailable")
    grid = SampleGrid(context)
    _, samples = executed(samples_cell(context))
    assert set(samples.uid) == set(grid.table.frame.uid)
    assert "response" not in samples


def test_filters_in_the_heads_of_columns_choose_the_samples(run: Run) -> None:
    context = context_of(run, columns={"reward": "0.5"})
    grid = SampleGrid(context)
    [answer] = send(parts_of(grid, QueryBar)[0], {"do": "take", "what": "python"})
    _, samples = executed(answer["cell"])
    assert list(samples.uid) == list(grid.table.current.uid)
    assert (samples.reward >= 0.5).all()
    many = samples_cell(context, ["uid"] * (MAX_UIDS + 1))
    assert "# Without the filters in the heads of columns: reward: 0.5" in many
    assert "uids =" not in many


def test_the_cell_of_a_finding_loads_it_and_its_samples(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = cached_findings(run.index, FindingSettings.from_environment(), 0, run.snapshot.split)
    finding = next(each for each in found if each.where)
    names, samples = executed(finding_cell(context_of(run), finding))
    assert isinstance(names["finding"], Finding)
    assert names["finding"].sentence == finding.sentence
    assert finding.sentence in capsys.readouterr().out
    assert set(samples.step) == {finding.onset}
    wanted = run.ask("samples", step=finding.onset, filter=finding.where).frame()
    assert set(samples.uid) == set(wanted.uid)


@pytest.mark.parametrize("band", ["iqr", "std", "se", "range", "none"])
def test_the_cell_of_a_curve_draws_the_points_of_the_board(run: Run, band: str) -> None:
    context = context_of(run, {"band": band}, curves=["response_tokens"])
    card = next(iter(Curves(context).cards.values()))
    [answer] = send(parts_of(card.card, CardHead)[0], "Copy as Python")
    _, plot = executed(answer["text"])
    export = card.export()
    assert export is not None
    rows = export.rows()
    parts = plot.traverse(lambda part: part)
    lines = [part.dimension_values(1) for part in parts if type(part) is hv.Curve]
    np.testing.assert_allclose(np.concatenate(lines), rows["mean"])
    areas = [part for part in parts if isinstance(part, hv.Area)]
    assert bool(areas) == (band != "none")
    if areas:
        np.testing.assert_allclose(areas[0].dimension_values(1), rows["lo"][: len(areas[0])])


def test_the_cell_of_a_trainers_scalar_draws_its_values(run: Run) -> None:
    name = next(name for name in run.scalars if name not in ("step", "time"))
    _, plot = executed(curve_cell(context_of(run), [f"log:{name}"], "", log=False))
    np.testing.assert_allclose(plot.dimension_values(1), run.scalars[name])


def test_the_cell_of_a_sample_loads_it(run: Run) -> None:
    uid = str(run.samples(STEP).uid[3])
    _, sample = executed(sample_cell(context_of(run), uid))
    assert isinstance(sample, Sample)
    assert (sample.uid, sample.response) == (uid, run.sample(uid).response)


def test_a_public_board_does_not_name_its_folder(run: Run, folder: Path) -> None:
    selection = Selection(step=STEP, follow=False, run="exp/1")
    context = Context(index=run.index, view=run.view, selection=selection, read_only=True)
    assert str(folder.parent) not in samples_cell(context)
    assert 'rlpanel.open_run("exp/1")' in samples_cell(context)


def test_a_split_and_counting_by_rows_are_in_the_cell(run: Run) -> None:
    context = context_of(run, {"count_rewards": "rows"}, split="eval")
    assert '.split("eval").by_rows' in samples_cell(context)


@pytest.mark.parametrize("text", ['a"b', "a\\nb", "a\nb", "中文", "\ud800", "\\u0041", "\x1b[31m"])
def test_texts_are_written_so_that_python_reads_the_same(run: Run, text: str) -> None:
    cell = sample_cell(context_of(run), text)
    called = next(line for line in cell.split("\n") if line.startswith("sample = "))
    assert eval(called.removeprefix("sample = run.sample(").removesuffix(")")) == text
    assert pd.Series(list(called)).map(str.isprintable).all()
