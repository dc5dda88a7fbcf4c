"""What is in flight: order, counts by phase, what a batch waits for, and logged waiting times."""

from __future__ import annotations

import json
from pathlib import Path

import rlpanel
from rlpanel.sources.live.live_rollout import LiveRollout, LiveState
from rlpanel.store.query.flight import in_flight_of
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import write_run


def rollout(name: str, started: float | None, **more: object) -> LiveRollout:
    return LiveRollout(name, started=started, **more)  # type: ignore[arg-type]


def test_the_slowest_come_first_and_lost_ones_last() -> None:
    rollouts = [
        rollout("quick", 90.0, phase="tool"),
        rollout("lost", 1.0, lost="lost after 1 turn", updated=2.0),
        rollout("unknown", None),
        rollout("slow", 10.0, phase="tool", step=3),
    ]
    found = in_flight_of(Snapshot("run"), LiveState(rollouts, others=7), 100.0)
    assert [each.id for each in found.rollouts] == ["slow", "quick", "unknown", "lost"]
    assert (found.total, found.lost, found.phases) == (10, 1, {"tool": 2, "unknown": 1})
    assert found.remarks == [
        "7 further rollouts in flight are only counted; the oldest that were kept are shown.",
        "1 rollout has no start time and stands last.",
    ]
    (batch,) = found.batches
    assert (batch.step, batch.waits, batch.done, batch.slowest) == (3, 1, None, 90.0)


def test_a_batch_counts_its_samples_of_the_log_or_the_ended_ones(tmp_path: Path) -> None:
    write_run(tmp_path, steps=2)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        snapshot = run.snapshot
    logged = int(snapshot.steps.samples[-1])
    rollouts = [rollout("a", 0.0, step=2), rollout("b", 5.0, step=2), rollout("c", 8.0, step=3)]
    found = in_flight_of(snapshot, LiveState(rollouts, ended={3: 61}), 10.0)
    assert [(each.step, each.waits, each.done, each.slowest) for each in found.batches] == [
        (2, 2, logged, 10.0), (3, 1, 61, 2.0)
    ]  # fmt: skip


def test_waiting_times_of_the_trainer_are_the_newest_logged(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1)
    lines = [
        {"step": at, "timing_s/wait_for_rollouts": 2.0 * at, "loss": 1.0, "awaited": 5.0} for at in (1, 2)
    ]
    (tmp_path / "scalars.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        found = in_flight_of(run.snapshot, LiveState(), 0.0)
    assert found.idle == {"timing_s/wait_for_rollouts": 4.0}
