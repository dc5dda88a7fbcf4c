"""The row of curves when another run is opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bokeh.models import Span

import rlpanel
from rlpanel.api.run import Run
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.session.context import Context
from tests.factories import append, line, rewrite, write_run


@pytest.fixture
def curves(tmp_path: Path) -> Curves:
    """The curves of a run with three steps."""
    run = opened(tmp_path / "first", steps=3)
    return Curves(Context(index=run.index, view=run.view))


def opened(folder: Path, steps: int) -> Run:
    folder.mkdir()
    lines = [line(step, index=at, reward=step + at) for step in range(steps) for at in range(4)]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def show(curves: Curves, run: Run) -> None:
    curves.context.param.update(index=run.index, view=run.view)


def points(curves: Curves) -> np.ndarray:
    """The steps in the plot of the first card."""
    card = next(iter(curves.cards.values()))
    return np.asarray(card.plot.sources[card.curve.columns[0]].data["x"])


def counted(curves: Curves) -> int:
    """The number of values in the distribution of the first card, as it is exported."""
    export = next(iter(curves.cards.values())).export()
    assert export is not None
    return int(export.rows().samples.sum())


def test_a_run_with_other_columns_has_other_cards(curves: Curves, tmp_path: Path) -> None:
    show(curves, rlpanel.open_run(write_run(tmp_path / "texts", tokens=False), follow=False))
    shown = {columns[0] for columns, _ in curves.cards}
    assert "reward" in shown
    assert "kl_k3_mean" not in shown
    assert len(curves.row) == len(shown)


def test_a_run_that_loses_its_samples_loses_its_cards(curves: Curves) -> None:
    index = curves.context.index
    rewrite(index.path / "rollout_data_rank_0.jsonl")
    index.rescan()
    index.read()
    curves.context.view = index.view
    assert not curves.context.snapshot.samples
    assert not len(curves.row)


def test_the_distribution_of_another_run_has_its_values_only(curves: Curves, tmp_path: Path) -> None:
    curves.context.display.band = "density"
    assert counted(curves) == 12
    show(curves, opened(tmp_path / "second", steps=5))
    assert counted(curves) == 20


def test_each_card_of_another_run_is_created_in_a_turn_of_its_own(curves: Curves, tmp_path: Path) -> None:
    run = opened(tmp_path / "second", steps=5)
    with curves.context.collect_draws() as draws:
        show(curves, run)
    counts = [len(curves.cards)]
    for draw in draws:
        draw()
        counts.append(len(curves.cards))
    assert max(counts) > 1
    assert np.diff(counts).max() == 1, "one card at a time"
    assert points(curves).tolist() == [0, 1, 2, 3, 4]


def test_all_cards_share_the_cursor_at_the_step(curves: Curves) -> None:
    curves.context.choose_step(1)
    cursors = [card.plot.figure.select_one({"type": Span, "line_dash": []}) for card in curves.cards.values()]
    assert len(cursors) > 1
    assert all(cursor is cursors[0] for cursor in cursors)
    assert (cursors[0].location, cursors[0].visible) == (1.0, True)
