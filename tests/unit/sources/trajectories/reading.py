"""Reads folders of trajectories, and their raw files with the standard library, for the tests beside."""

from __future__ import annotations

import math
from pathlib import Path

import rlpanel
from rlpanel.schema import Sample

DATA = Path(__file__).parents[3] / "data" / "trajectories"


def samples(folder: Path, split: str = "eval") -> list[Sample]:
    """All samples of a folder that holds nothing else, by file and line."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        assert not len(run.unread)
        assert split in run.splits
        parts = [run.split(name) for name in run.splits]
        read = [part.sample(uid) for part in parts for uid in part.samples()["uid"]]
    return sorted(read, key=lambda sample: _place(sample.uid))


def _place(uid: str) -> tuple[str, list[int]]:
    """File and place of a sample: the number of a step's file, the offset of a line, the part of it."""
    file, *places = uid.split(":")
    return file, [*map(int, places)]


def rewards(read: list[Sample]) -> list[float | None]:
    """Rewards in the order of the samples; None for samples without one."""
    logged = [each.columns.get("reward", math.nan) for each in read]
    return [None if math.isnan(reward) else reward for reward in logged]


def spoken(sample: Sample) -> list[tuple[str, str]]:
    """Roles and texts, or the names of calls."""
    return [
        (each["role"], each["content"] or " ".join(call["name"] for call in each.get("tool_calls", ())))
        for each in sample.messages
    ]
