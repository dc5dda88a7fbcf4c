"""Counts from indexing a run."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Stats:
    """Counts from indexing a run; of the rows of one episode, ``episodes`` counts one."""

    rows: int
    episodes: int
    bad_lines: int
    blank_lines: int
    steps: int
    ranks: int
    files: int
    bytes: int


def stats_of(snapshot: Snapshot, *, split: bool) -> Stats:
    """Return the counts so far; with ``split`` the rows of the snapshot's split only."""
    return Stats(
        rows=snapshot.samples if split else snapshot.all_samples,
        episodes=snapshot.episodes if split else snapshot.all_episodes,
        bad_lines=snapshot.bad_count,
        blank_lines=snapshot.blank_count,
        steps=len(snapshot.steps.values),
        ranks=snapshot.ranks,
        files=len(snapshot.files),
        bytes=snapshot.progress.bytes_read,
    )
