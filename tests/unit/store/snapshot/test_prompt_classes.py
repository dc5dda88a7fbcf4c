"""Prompts are learnt, forgotten, flickering, never, always or steady; chance alone changes none."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.store.snapshot.prompt_classes import CLASSES, moves_of, prompt_classes
from rlpanel.store.snapshot.prompt_grid import PassRule, PromptGrid


def grid_of(passed: np.ndarray, of: int) -> PromptGrid:
    """The grid of passes, shape (prompts, visits); −1 for no visit."""
    prompts, visits = passed.shape
    prompt, step = (each.ravel().astype(np.int32) for each in np.indices(passed.shape))
    samples = np.where(passed.ravel() >= 0, of, 0).astype(np.int32)
    none = np.zeros(prompts, int)
    by_step = np.zeros((5, visits))
    return PromptGrid(
        none, np.arange(visits), np.arange(prompts) * visits, prompt, step, samples,
        np.maximum(passed.ravel(), 0).astype(np.int32), samples.astype(np.float32), none, none, none * 1.0,
        by_step, by_step, PassRule(1.0, "usual"), True, "advantage", 0,
    )  # fmt: skip


#: Class → passes of eight at each visit.
COURSES = {
    "learnt": [(0, 1, 7, 8), (0, 0, 0, 8, 8, 8), (0, 1, 2, 3, 5, 6, 7, 8), (0,) * 40 + (7, 8) * 20],
    "forgotten": [(8, 8, 0, 0), (0, 0, 8, 8, 0, 0), (8, 7, 6, 5, 3, 2, 1, 0)],
    "flickers": [(0, 8, 0, 8), (8, 0, 8, 0, 8), (0, 8) * 60, (8, 8, 8, 0, 0, 0) * 4],
    "never": [(0, 0, 0, 0), (0, 0, 1, 0), (0,) * 99 + (1,)],
    "always": [(8, 8, 8, 8), (8,) * 50 + (7, 8)],
    "steady": [(4, 5, 4, 5), (2, 4, 3, 1), (7, 6, 7, 8)],
    "seldom": [(0, 8), (4,)],
}


@pytest.mark.parametrize("name", COURSES)
def test_each_course_has_its_class(name: str) -> None:
    longest = max(map(len, COURSES[name]))
    rows = [course + (-1,) * (longest - len(course)) for course in COURSES[name]]
    found = prompt_classes(grid_of(np.array(rows), 8), 3)
    assert [CLASSES[code] for code in found.tolist()] == [name] * len(rows)


@pytest.mark.parametrize("visits", [3, 8, 30, 200])
@pytest.mark.parametrize("of", [1, 4, 16])
@pytest.mark.parametrize("rate", [0.03, 0.2, 0.5, 0.9])
def test_a_coin_flip_is_no_change(visits: int, of: int, rate: float) -> None:
    passed = np.random.default_rng(visits + of).binomial(of, rate, (1500, visits))
    changed = np.count_nonzero(prompt_classes(grid_of(passed, of), 3) < 3)
    assert changed <= 0.005 * len(passed)  # three tests of 0.1 % each, and chance in the count


def test_samples_that_come_one_by_one_are_enough_if_there_are_many() -> None:
    passed = np.array([[0] * 30 + [1] * 30, [1] * 30 + [0] * 30, [0] * 20 + [1] * 20 + [0] * 20])
    assert [CLASSES[code] for code in prompt_classes(grid_of(passed, 1), 3).tolist()] == [
        *("learnt", "forgotten", "forgotten"),
    ]


def test_visits_without_a_reward_do_not_count() -> None:
    passed = np.array([[0, -1, 8, -1, 0, 8], [0, -1, -1, -1, -1, 8]])
    assert [CLASSES[code] for code in prompt_classes(grid_of(passed, 8), 3).tolist()] == [
        "flickers",
        "seldom",
    ]


def test_moves_go_from_turning_point_to_turning_point() -> None:
    assert moves_of([0.0, 0.2, 0.1, 0.5, 0.9], 0.4) == [1]
    assert moves_of([0.9, 0.6, 0.1, 0.5, 0.8], 0.4) == [-1, 1]
    assert moves_of([0.5, 0.6, 0.4], 0.4) == []
