"""Traces of one episode: folded into one row, counted, and found from one another."""

from __future__ import annotations

from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.panels.samples.grid_cells import fold_episodes, trace_column, traces_of
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import line, write_run


def read(folder: Path) -> Snapshot:
    return open_run(folder, follow=False).snapshot


def with_episodes(folder: Path) -> Snapshot:
    """Episode a has two traces at step 1 and one at step 2, b has one, and two samples have no episode."""
    samples = [
        *((1, "a", "solver"), (1, None, None), (1, "b", "solver")),
        *((1, "a", "critic"), (1, None, None), (2, "a", "solver")),
    ]
    lines = [
        line(step, index=index, episode=episode, agent=agent)
        for index, (step, episode, agent) in enumerate(samples)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "rank_0.jsonl").write_bytes(b"".join(lines))
    return read(folder)


def test_an_episode_folds_into_its_first_trace_of_the_step(tmp_path: Path) -> None:
    found = with_episodes(tmp_path)
    rows = found.alive_rows
    folded = fold_episodes(found, rows)
    assert folded.tolist() == [0, 1, 2, 4, 5]
    assert fold_episodes(found, rows[::-1]).tolist() == [5, 4, 3, 2, 1]
    assert trace_column(found, folded)["traces"].tolist() == [2, 1, 1, 1, 1]


def test_the_traces_of_an_episode_are_named_by_their_agents(tmp_path: Path) -> None:
    found = with_episodes(tmp_path)
    uids = found.uids(found.alive_rows)
    assert traces_of(found, uids[3]) == [(uids[0], "solver"), (uids[3], "critic")]
    assert traces_of(found, uids[1]) == []
    assert traces_of(found, "gone.jsonl:0") == []


def test_a_counter_of_episodes_is_not_an_episode(tmp_path: Path) -> None:
    """TRL's PPO logs the number of episodes so far, which all samples of a step share."""
    drop = ["group"]
    lines = [line(1, index=index, episode=64, drop=drop) for index in range(4)]
    (tmp_path / "rank_0.jsonl").write_bytes(b"".join(lines))
    found = read(tmp_path)
    assert fold_episodes(found, found.alive_rows).tolist() == [0, 1, 2, 3]
    assert traces_of(found, found.uid(0)) == []


def test_a_run_without_episodes_is_not_folded(tmp_path: Path) -> None:
    found = read(write_run(tmp_path))
    rows = found.alive_rows
    assert fold_episodes(found, rows) is rows
    assert trace_column(found, rows) == {}
    assert traces_of(found, found.uid(0)) == []
