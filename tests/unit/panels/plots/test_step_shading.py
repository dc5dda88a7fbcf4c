"""Edges of the strips that shade steps."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.panels.plots.quiet_figure import strips
from rlpanel.store.snapshot.alignment import RunAxis

STEPS = np.array([10, 20, 30, 40, 50])
HOURS = np.array([0.0, 1.0, 2.0, 4.0, 8.0])


@pytest.mark.parametrize(
    ("positions", "steps", "left", "right"),
    [
        (STEPS, [20, 30], [15], [35]),
        (STEPS, [10, 30, 50], [10, 25, 45], [15, 35, 50]),
        (STEPS, [40, 50], [35], [50]),
        (STEPS, [], [], []),
        (STEPS, [25, 60], [], []),
        (HOURS, [30, 40], [1.5], [6.0]),
    ],
    ids=["inside", "single steps", "to the end", "none", "steps that the run lacks", "wall time"],
)
def test_a_strip_reaches_halfway_to_the_neighbouring_steps(
    positions: np.ndarray, steps: list[int], left: list[float], right: list[float]
) -> None:
    edges = strips(RunAxis(STEPS, positions), np.array(steps, int))
    assert [each.tolist() for each in edges] == [left, right]


def test_the_only_step_of_a_run_has_a_strip_without_width() -> None:
    axis = RunAxis(np.array([7]), np.array([7]))
    assert [each.tolist() for each in strips(axis, np.array([7]))] == [[7.0], [7.0]]
