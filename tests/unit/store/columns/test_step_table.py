"""Statistics per step: merged from batches, equal to a computation over all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from rlpanel.store.columns.splits import CHUNK, StepTable
from rlpanel.store.columns.step_stats import COUNT, MAX, MIN, DeferredColumns, RowsByStep, Steps
from tests.waiting import wait_until


def table(*batches: tuple[list[int], list[float]]) -> StepTable:
    made = StepTable()
    for version, (steps, values) in enumerate(batches):
        made.add(np.array(steps), {"x": np.array(values, dtype=float)}, version)
    return made


def test_steps_come_in_order_however_they_arrived() -> None:
    steps = table(([5, 1], [1, 2]), ([3], [3])).freeze()
    assert (steps.values.tolist(), steps.mean("x").tolist()) == ([1, 3, 5], [2, 3, 1])


def test_batches_add_up_to_the_whole() -> None:
    draw = np.random.default_rng(0)
    steps, values = draw.integers(0, 700, 5000), draw.normal(1e6, 1, 5000)
    made = StepTable()
    for part in np.array_split(np.arange(5000), 37):
        made.add(steps[part], {"x": values[part]}, 1)
    frozen, truth = (
        made.freeze(),
        pd.Series(values).groupby(steps).agg(["count", "mean", "std", "min", "max"]),
    )
    found = [
        frozen.stat("x", COUNT),
        frozen.mean("x"),
        frozen.std("x"),
        frozen.stat("x", MIN),
        frozen.stat("x", MAX),
    ]
    np.testing.assert_allclose(np.stack(found, axis=1), truth, rtol=1e-9)


def test_statistics_of_several_columns_are_those_of_each() -> None:
    draw = np.random.default_rng(1)
    steps = draw.integers(0, 2 * CHUNK, 4000)
    values = {name: draw.normal(size=4000) for name in "xyz"}
    values["y"][draw.random(4000) < 0.3] = np.nan
    made = StepTable()
    for part in np.array_split(np.arange(4000), 5):
        made.add(steps[part], {name: column[part] for name, column in values.items()}, 1)
    frozen = made.freeze()
    found = frozen.stats_of(["z", "y"])
    np.testing.assert_array_equal(found, np.stack([frozen.stats("z"), frozen.stats("y")], axis=1))
    assert frozen.stats_of([]).shape == (5, 0, len(frozen.values))


def test_statistics_from_a_position_on() -> None:
    draw = np.random.default_rng(1)
    for steps in (np.arange(3 * CHUNK), draw.permutation(3 * CHUNK)):
        made = StepTable()
        for part in np.array_split(np.arange(len(steps)), 5):
            made.add(steps[part], {"x": draw.normal(size=len(part)), "y": draw.normal(size=len(part))}, 1)
        frozen = made.freeze()
        every = frozen.stats_of(["y", "x"])
        for first in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, len(steps) - 1, len(steps)):
            np.testing.assert_array_equal(frozen.stats_of(["y", "x"], first), every[..., first:])


def test_missing_values_do_not_count() -> None:
    steps = table(([1, 1, 1, 1], [1, np.nan, np.inf, 3])).freeze()
    assert (steps.mean("x").tolist(), steps.stat("x", COUNT).tolist(), steps.samples.tolist()) == (
        [2],
        [2],
        [4],
    )


def test_equal_values_deviate_by_exactly_zero() -> None:
    """The mean of three equal values can differ from them by rounding, and so can that of merged batches."""
    steps = table(([1, 1, 1], [0.1] * 3), ([1] * 7, [0.1] * 7), ([2] * 6, [7.2e10 / 7] * 6)).freeze()
    assert steps.std("x").tolist() == [0, 0]


def test_a_step_without_values_has_no_mean() -> None:
    steps = table(([1], [np.nan]), ([1], [np.nan])).freeze()
    assert np.isnan([steps.mean("x")[0], steps.std("x")[0], steps.stat("x", MIN)[0]]).all()


def test_one_sample_has_no_spread() -> None:
    assert np.isnan(table(([1], [2.0])).freeze().std("x")[0])


def test_a_column_that_comes_late_is_missing_before() -> None:
    made = table(([1], [1.0]))
    made.add(np.array([2]), {"y": np.array([5.0])}, 2)
    np.testing.assert_array_equal(made.freeze().mean("y"), [np.nan, 5])


def test_samples_are_counted_even_without_columns() -> None:
    made = StepTable()
    made.add(np.array([1, 1]), {}, 1)
    assert made.freeze().samples.tolist() == [2]


def test_a_frozen_state_stays_as_it_was() -> None:
    made = table(([1], [1.0]))
    before = made.freeze()
    made.add(np.array([1, 2]), {"x": np.array([3.0, 4.0])}, 2)
    assert (before.values.tolist(), before.mean("x").tolist(), before.samples.tolist()) == ([1], [1.0], [1])


def test_a_step_that_was_cleared_is_gone_until_rows_come_again() -> None:
    made = table(([1, 2], [1, 2]))
    made.clear(np.array([1]), 7)
    emptied = made.freeze()
    made.add(np.array([1]), {"x": np.array([9.0])}, 8)
    assert (emptied.values.tolist(), made.freeze().mean("x").tolist()) == ([2], [9, 2])


def test_it_tells_which_steps_changed_since_a_version() -> None:
    steps = table(([1, 2, 3], [0, 0, 0]), ([2], [1])).freeze()
    assert steps.changed_since(0).tolist() == [1]


def test_more_steps_than_one_chunk_holds() -> None:
    count = 3 * CHUNK + 1
    steps = table((list(range(count)), [float(x) for x in range(count)])).freeze()
    assert steps.mean("x").tolist() == list(range(count))


@pytest.mark.parametrize(("step", "position"), [(10, 0), (20, 1), (15, -1), (5, -1), (99, -1)])
def test_a_step_is_found_by_its_number(step: int, position: int) -> None:
    assert table(([10, 20], [0, 0])).freeze().position(step) == position


def test_a_column_nobody_logged_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        table(([1], [1])).freeze().mean("y")


def deferred_and_added(rows: np.ndarray | None = None) -> tuple[StepTable, StepTable]:
    """Return two tables with the same 100,000 rows, whose steps are interleaved as several ranks log them."""
    generator = np.random.default_rng(0)
    steps = np.repeat(np.arange(500), 200) + generator.integers(0, 3, 100_000)
    values = {name: generator.normal(size=100_000) for name in ("x", "y", "z")}
    values["y"][generator.random(100_000) < 0.1] = np.nan
    deferred, added = StepTable(), StepTable()
    deferred.add_deferred(rows, steps, values, version=1)
    where = slice(None) if rows is None else rows
    added.add(steps[where], {name: column[where] for name, column in values.items()}, version=1)
    return deferred, added


def assert_same(deferred: Steps, added: Steps) -> None:
    assert (deferred.values.tolist(), deferred.samples.tolist()) == (
        added.values.tolist(),
        added.samples.tolist(),
    )
    for column in added.columns:
        for statistic in range(5):
            np.testing.assert_allclose(deferred.stat(column, statistic), added.stat(column, statistic))


@pytest.mark.parametrize("rows", [None, np.arange(7, 100_000, 3)], ids=["all", "some"])
def test_deferred_statistics_equal_those_that_are_computed_at_once(rows):
    deferred, added = deferred_and_added(rows)
    assert_same(deferred.freeze(), added.freeze())


def test_a_frozen_view_keeps_deferred_statistics_when_rows_are_added_or_cleared():
    deferred, added = deferred_and_added()
    before, expected = deferred.freeze(), added.freeze()
    before.stat("y", MAX)  # one was needed before, the others are computed by the next write
    for table in (deferred, added):
        table.add(np.array([0, 0, 999]), {"x": np.array([1e9, -1e9, 5.0])}, 2)
        table.clear(np.array([3]), 3)
    assert_same(before, expected)
    assert_same(deferred.freeze(), added.freeze())


def test_deferred_statistics_are_computed_once_by_threads_that_read_at_the_same_time():
    deferred, added = deferred_and_added()
    frozen, expected = deferred.freeze(), added.freeze()
    with ThreadPoolExecutor(8) as threads:
        everything = threads.submit(frozen.compute_all)
        columns = list(threads.map(lambda number: frozen.stat("xyz"[number % 3], COUNT), range(24)))
        everything.result()
    for number, counts in enumerate(columns):
        np.testing.assert_array_equal(counts, expected.stat("xyz"[number % 3], COUNT))


def test_a_column_that_a_thread_waits_for_comes_before_the_others():
    values = {str(number): np.zeros(1) for number in range(20)}
    order: list[str] = []

    def merge(rows: RowsByStep, columns: Mapping[str, np.ndarray]) -> None:
        order.extend(columns)
        if len(order) == len(columns):  # the first ones: meanwhile another thread asks for one of the last
            asked.append(threads.submit(deferred.compute, "19"))
            wait_until(lambda: "19" in deferred._wanted)

    rows = RowsByStep(None, np.zeros(1, int), np.zeros(1, int))
    deferred = DeferredColumns(merge, [(slice(None), rows)], values)
    asked: list[Future[None]] = []
    with ThreadPoolExecutor(1) as threads:
        deferred.compute_all()
        asked[0].result()
    assert "19" in order[:5]
    assert sorted(order) == sorted(values)


def test_memory_is_released_while_the_rest_is_computed():
    deferred, added = deferred_and_added()
    released: list[int] = []
    deferred.compute_deferred(lambda: released.append(1))
    assert released
    deferred.compute_deferred(lambda: released.append(2))
    assert 2 not in released
    assert_same(deferred.freeze(), added.freeze())


def sparse_columns(rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return steps and columns for which another part of the rows decides whether they have a value."""
    steps = np.repeat(np.arange(rows // 100), 100)
    missing, zero = np.full(rows, np.nan), np.zeros(rows)
    last_value, last_number, disorder = missing.copy(), zero.copy(), steps + 0.5
    last_value[-1], last_number[-1], disorder[-1] = 3.0, -2.0, 0.0
    columns = {
        "missing": missing,
        "infinite": np.where(steps % 2, np.inf, -np.inf),
        "infinite and zero": np.where(steps % 2, np.inf, 0.0),
        "zero": zero,
        "last value": last_value,
        "last number": last_number,
        "rises": steps + 0.5,
        "rises and is constant": steps // 50.0,
        "falls": -steps * 2.0,
        "rises with gaps": np.where(steps % 7 == 0, np.nan, steps),
        "rises but for one row": disorder,
        "noise": np.random.default_rng(0).normal(size=rows),
    }
    return steps, columns


@pytest.mark.parametrize("before", [False, True], ids=["sorted", "mixed, after other rows"])
def test_questions_about_a_deferred_column_have_the_answers_of_its_statistics(before):
    steps, columns = sparse_columns(100_000)
    table = StepTable()
    if before:
        mixed = np.random.default_rng(1).permutation(len(steps))
        steps, columns = steps[mixed], {name: values[mixed] for name, values in columns.items()}
        table.add(np.array([5, 7, 9]), {"missing": np.array([np.nan, 4.0, np.nan])}, 0)
    table.add_deferred(None, steps, columns, version=1)
    asked = table.freeze()
    answers = {
        name: (asked.has_value(name), asked.has_value(name, nonzero=True), asked.is_ordered(name))
        for name in columns
    }
    for name in columns:
        count, low, high = (asked.stat(name, statistic) for statistic in (COUNT, MIN, MAX))
        rises, falls = (low[1:] >= high[:-1]).all(), (high[1:] <= low[:-1]).all()
        truth = ((count > 0).any(), (low < 0).any() or (high > 0).any(), rises or falls)
        assert answers[name] == truth, name
    assert [name for name, (value, *_) in answers.items() if not value] == ([] if before else ["missing"]) + [
        "infinite"
    ]
    assert [name for name, (*_, ordered) in answers.items() if ordered] == [
        "zero",
        "last number",
        "rises",
        "rises and is constant",
        "falls",
    ]


def test_a_deferred_column_whose_first_rows_decide_is_not_summarized():
    _, columns = sparse_columns(100_000)
    computed: list[str] = []
    deferred = DeferredColumns(
        lambda _, values: computed.extend(values),
        [(slice(0, 100_000), RowsByStep(None, np.arange(0, 100_000, 100), np.arange(1000)))],
        columns,
    )
    chunk = np.zeros((5, len(columns), 1000))
    whole = Steps(tuple(columns), np.arange(1000), np.full(1000, 100), np.zeros(1000), (chunk,), deferred)
    assert whole.has_value("noise")
    assert whole.has_value("noise", nonzero=True)
    assert not whole.is_ordered("noise")
    assert not computed
    whole.has_value("missing")
    assert set(computed) == {"missing"}
