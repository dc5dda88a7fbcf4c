"""Means of trainers that write several rows for an episode: by episode, as the trainers compute them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rlpanel
from tests.upstream.reading import means

Written = Callable[[str], Path]


@pytest.mark.case("SkyRL", "fork")
def test_steps_of_a_skyrl_trajectory_count_as_one(written: Written) -> None:
    """Three trajectories in five rows, of which one is right; SkyRL scores the last rows."""
    assert means(written("skyrl.stepwise"), "eval") == {5: pytest.approx(1 / 3)}


@pytest.mark.case("verl", "fork")
def test_outputs_of_a_verl_session_count_as_one(written: Written) -> None:
    """verl's own validation score is that of each session's last output."""
    folder = written("verl.dump") / "validation"
    with rlpanel.open_run(folder, follow=False) as run:
        (split,) = run.splits
    assert means(folder, split) == {2: 0.5}


@pytest.mark.case("verl, hook", "fork")
def test_outputs_of_a_recorded_session_count_as_one(written: Written) -> None:
    assert means(written("verl.hook") / "recorded") == {3: 0.5}
    assert means(written("verl.hook") / "dump") == {3: 0.5}


@pytest.mark.case("verifiers", "fork")
def test_branches_of_a_trace_count_as_one(written: Written) -> None:
    """prime-rl's statistics are over traces: 1.0 for the fork, 0.5 for the compaction, and 0.0."""
    assert means(written("verifiers.training")) == {1: 0.5, 2: 0.5}
