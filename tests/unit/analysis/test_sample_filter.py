"""A filter for given samples passes exactly these."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rlpanel
from rlpanel.analysis.step_change import samples_filter
from rlpanel.store.query.filter_syntax import MAX_CHARS
from rlpanel.store.query.query import Query, QuerySpec
from tests.factories import write_run


def passing(run: rlpanel.Run, where: str) -> list[int]:
    *_, result = Query(run.index, run.snapshot, QuerySpec(filter=where)).results()
    return sorted(result.rows.tolist())


def test_it_passes_these_samples_of_several_files(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=3, ranks=3), follow=False)
    rows = np.array([1, 5, 30, 31, 70])
    assert passing(run, samples_filter(run.snapshot, rows)) == rows.tolist()


def test_of_very_many_samples_it_passes_the_first(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=30, samples=40, tokens=False), follow=False)
    rows = run.snapshot.alive_rows
    where = samples_filter(run.snapshot, rows)
    found = passing(run, where)
    assert len(where) <= MAX_CHARS
    assert 200 < len(found) < len(rows)
    assert found == rows[: len(found)].tolist()
