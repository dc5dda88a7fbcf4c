"""Restarts and stragglers are distinguished by the lines that follow."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.store.columns.attempts import Restart, RestartDetector


def runs_of(steps: list[int], start: int = 0) -> list[tuple[int, int, int]]:
    """Group consecutive equal steps; line numbers serve as offsets."""
    runs, at = [], start
    for step, group in groupby(steps):
        lines = len(list(group))
        runs.append((step, at, lines))
        at += lines
    return runs


def follow(*batches: list[int]) -> list[Restart]:
    """Restarts that are found when the lines come in these batches."""
    attempts, restarts, taken = RestartDetector(), [], list[int]()
    for batch in batches:
        if batch and not (batch == sorted(batch) and attempts.feed_ascending(batch[0], batch[-1])):
            restarts += attempts.feed(runs_of(batch, len(taken)), going_on(taken, restarts))
        taken += batch
    return restarts


def going_on(steps: list[int], restarts: list[Restart]) -> Counter[int]:
    """Lines by step that belong to the newest attempt."""
    older = {line for r in restarts for line in range(r.offset) if steps[line] >= r.step}
    return Counter(step for line, step in enumerate(steps) if line not in older)


def steps(first: int, last: int, lines: int = 4) -> list[int]:
    return [step for step in range(first, last + 1) for _ in range(lines)]


def test_steps_that_rise_are_one_attempt() -> None:
    assert follow(steps(1, 20), steps(20, 30)) == []


def test_a_job_resumed_some_steps_back_begins_another_attempt() -> None:
    assert follow(steps(1, 10) + steps(6, 12)) == [Restart(6, 40)]


def test_a_job_started_from_scratch_in_the_same_file_too() -> None:
    assert follow(steps(1, 10), steps(1, 3)) == [Restart(1, 40)]


def test_every_restart_is_found() -> None:
    assert follow(steps(1, 10), steps(6, 9), steps(3, 12)) == [Restart(6, 40), Restart(3, 56)]


def test_it_shows_as_soon_as_half_of_the_step_has_come_again() -> None:
    assert (follow(steps(1, 10), [6]), follow(steps(1, 10), [6], [6])) == ([], [Restart(6, 40)])


@pytest.mark.parametrize("late", [[6, 10], [6, 11, 11, 11], [6], [6, 7, 8, 11]])
def test_a_straggler_begins_nothing(late: list[int]) -> None:
    assert follow(steps(1, 10), late) == []


def test_one_step_back_is_never_a_restart() -> None:
    assert follow(steps(1, 10), steps(9, 12)) == []


def test_an_asynchronous_trainer_with_stragglers_has_one_attempt() -> None:
    mixed = [
        step for base in range(3, 50) for step in [base] * 20 + [base - 3] * 2 + [base - 2] * 5 + [base] * 9
    ]
    assert follow(mixed) == []


def test_steps_are_counted_as_they_are_spaced() -> None:
    assert follow([0] * 4 + [100] * 4 + [200] * 4 + [100] * 4) == []
    assert follow([0] * 4 + [100] * 4 + [200] * 4 + [0] * 4) == [Restart(0, 12)]


@given(st.lists(st.integers(0, 6), max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_how_the_lines_were_cut_into_batches_changes_nothing(lines: list[int], cuts: list[int]) -> None:
    places = sorted({0, len(lines), *(min(cut, len(lines)) for cut in cuts)})
    batches = [lines[a:b] for a, b in pairwise(places)]
    assert follow(*batches) == follow(*[[line] for line in lines])
