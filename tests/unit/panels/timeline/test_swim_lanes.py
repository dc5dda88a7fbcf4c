"""Lanes of rollouts: no two overlap in one lane, and no lane is used without need."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_table import BY_RANK, SLOWEST, lanes_of, orders_of

Rollout = tuple[int, float, float]
rollouts = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(0, 40).map(float), st.integers(0, 20).map(float)),
    min_size=1,
    max_size=40,
)


def times(of: list[Rollout], *, start: bool = True) -> RolloutTimes:
    count, none = len(of), np.empty(0)
    ranks, starts, seconds = (np.array(part, float) for part in zip(*of, strict=True)) if of else (none,) * 3
    return RolloutTimes(
        rows=np.arange(count),
        uids=[f"log.jsonl:{at}" for at in range(count)],
        seconds=seconds,
        start=1e9 + starts if start else np.full(count, np.nan),
        rank=ranks.astype(int),
        lag=np.full(count, np.nan),
        version=np.full(count, np.nan),
        failed=np.zeros(count, bool),
        status=[""] * count,
        owner=none.astype(int),
        begin=none,
        end=none,
        phase=none.astype(int),
    )


@given(rollouts)
def test_by_rank_no_two_rollouts_of_a_lane_overlap(of: list[Rollout]) -> None:
    lanes = lanes_of(times(of), BY_RANK)
    for lane in range(lanes.count):
        members = np.flatnonzero(lanes.lane == lane)
        ends = sorted((lanes.offset[i], lanes.offset[i] + of[i][2]) for i in members)
        assert all(before[1] <= after[0] for before, after in pairwise(ends))
        assert len({of[i][0] for i in members}) == 1


@given(rollouts)
def test_by_rank_a_rank_has_as_many_lanes_as_rollouts_at_once(of: list[Rollout]) -> None:
    lanes = lanes_of(times(of), BY_RANK)
    needed = 0
    for rank in {rollout[0] for rollout in of}:
        members = [rollout for rollout in of if rollout[0] == rank]
        at_once = [sum(s <= t < s + d or (d == 0 and s == t) for _, s, d in members) for _, t, _ in members]
        needed += max(at_once)
    assert lanes.count <= needed
    assert lanes.names[0][0] == 0
    assert len(lanes.names) == len({rollout[0] for rollout in of})


@given(rollouts)
def test_the_slowest_is_at_the_top_and_all_start_at_zero(of: list[Rollout]) -> None:
    lanes = lanes_of(times(of), SLOWEST)
    seconds = np.array([rollout[2] for rollout in of])
    assert sorted(lanes.lane.tolist()) == list(range(len(of)))
    assert (np.diff(seconds[np.argsort(lanes.lane)]) <= 0).all()
    assert not lanes.offset.any()


def test_ranks_need_times_of_day() -> None:
    assert orders_of(times([(0, 0.0, 1.0)], start=False)) == [SLOWEST]
    assert orders_of(times([(0, 0.0, 1.0)])) == [SLOWEST, BY_RANK]
    assert lanes_of(times([]), SLOWEST).count == 0
