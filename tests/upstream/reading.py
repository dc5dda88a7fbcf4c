"""A written run, read as the board reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import rlpanel
from rlpanel.schema import Sample


def read(folder: Path, split: str = "train") -> tuple[pd.DataFrame, list[Sample]]:
    """Return the table and the samples of a split of a run without bad lines and unread files."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        assert run.unread.empty, run.unread
        shown = run.split(split)
        frame = shown.samples()
        return frame, [shown.sample(uid) for uid in frame["uid"]]


def splits(folder: Path) -> dict[str, int]:
    """Return the number of samples of each split."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        return {name: len(run.split(name).samples()) for name in run.splits}


def means(folder: Path, split: str = "train") -> dict[int, float]:
    """Return the mean reward of each step, as the curve shows it."""
    with rlpanel.open_run(folder, follow=False) as run:
        steps = run.split(split).steps
        return {int(step): mean for step, mean in zip(steps["step"], steps["reward_mean"], strict=True)}


def table(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the table as sorted rows."""
    return sorted(frame[list(columns)].itertuples(index=False, name=None))
