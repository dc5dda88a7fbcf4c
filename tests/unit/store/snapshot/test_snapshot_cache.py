"""Results shared by sessions are computed once per snapshot, and freed with it."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from bokeh.models import ColumnDataSource

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.display_settings import Display
from rlpanel.panels.curves.curve_points import shared_points
from rlpanel.panels.plots import series
from rlpanel.panels.plots.series import MAX_LIST_LENGTH
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.samples.visible_rows import PAGE
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.threads import Threads
from rlpanel.panels.texts import sample_texts
from rlpanel.panels.texts.sample_texts import texts_of
from rlpanel.store.snapshot.snapshot_cache import cached_on
from tests.factories import write_run


class Thing:
    """Something that never changes."""


def looking(run: Run, **selected: object) -> Context:
    context = Context(selection=Selection(run="run", step=1, **selected))
    context.param.update(index=run.index, view=run.view)
    return context


def test_it_is_worked_out_once_for_each_key() -> None:
    thing, made = Thing(), list[str]()

    def make(what: str) -> str:
        made.append(what)
        return what

    assert [cached_on(thing, "kind", what, lambda what=what: make(what)) for what in "aabba"] == [*"aabba"]
    assert made == ["a", "b"]
    assert cached_on(thing, "other kind", "a", lambda: make("c")) == "c"
    assert cached_on(Thing(), "kind", "a", lambda: make("d")) == "d"


def test_the_oldest_goes_when_there_are_too_many() -> None:
    thing = Thing()
    for number in range(5):
        cached_on(thing, "kind", number, lambda number=number: number, most=2)
    assert [cached_on(thing, "kind", number, lambda: -1, most=2) for number in (3, 4, 2)] == [3, 4, -1]


def test_threads_get_results_that_others_drop_meanwhile() -> None:
    thing, usual = Thing(), sys.getswitchinterval()

    def get(number: int) -> int:
        return cached_on(thing, "kind", number % 3, lambda: number % 3, most=2)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pages:
            assert list(pages.map(get, range(20_000))) == [number % 3 for number in range(20_000)]
    finally:
        sys.setswitchinterval(usual)


def test_it_goes_with_the_thing() -> None:
    thing = Thing()
    gone = ref(cached_on(thing, "kind", None, Thing))
    assert gone() is not None
    del thing
    gc.collect()
    assert gone() is None


def test_two_grids_of_a_step_have_one_table(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", steps=2, samples=3), follow=False)
    one, other = SampleGrid(looking(run)), SampleGrid(looking(run))
    assert len(one.table.frame) == 3
    assert one.table.frame is other.table.frame
    assert SampleGrid(looking(run, search="nothing like it")).table.frame is not one.table.frame


def test_a_patch_of_one_curve_is_not_one_of_all(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", steps=MAX_LIST_LENGTH + 2, samples=1), follow=False)
    points = shared_points(run.view, "reward", "step", Display(), 0.0)
    assert shared_points(run.view, "reward", "step", Display(), 0.0) is points
    assert shared_points(run.view, "reward", "step", Display(), 0.5) is not points
    before, source = points["y"].copy(), ColumnDataSource({name: [] for name in points})
    series.update_source(source, points, None)
    source.patch({"y": [(0, 99.0)]})
    assert source.data["y"][0] == 99.0
    np.testing.assert_array_equal(points["y"], before)


def test_of_long_lines_the_first_page_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_run(tmp_path / "run", steps=1, samples=2 * PAGE) / "rollout_data_rank_0.jsonl"
    monkeypatch.setattr(sample_texts, "READ_NOW", log.stat().st_size * 2 // 3)
    run = open_run(tmp_path / "run", follow=False)
    rows = run.snapshot.rows_of(1)
    assert len(rows) == 2 * PAGE
    texts = texts_of(run.index, run.view, rows, PAGE)
    assert not texts.whole
    assert [*texts.texts] == rows[:PAGE].tolist()
    pool = Threads().texts
    done = texts.read_rest(run.index, run.snapshot, rows, pool)
    assert texts.read_rest(run.index, run.snapshot, rows, pool) is done
    done.result(30)
    assert texts.whole
    assert [*texts.texts] == rows.tolist()
