"""Prompts of a run's evaluations: of its own splits, and of evaluations that are runs in folders below it.

rlpanel's recorder writes an evaluation of TRL into the folder ``eval`` of the run, so that its samples do not
count for the training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlpanel.findings.engine.group_signals import evaluation_prompts
from rlpanel.settings import Reading
from rlpanel.sources.discovery.file_names import names_evaluation
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most bytes of such a folder that are read.
MAX_BYTES = 256 << 20


def held_out_prompts(index: RunIndex, snapshot: Snapshot) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the hashes of the prompts of all evaluations, and the folders that are too large to be read.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot

    Returns
    -------
    ndarray of int, shape (N,)
        Not unique.
    tuple of str
        Names of folders.
    """
    found, large = [evaluation_prompts(snapshot)], list[str]()
    for folder in _folders(index):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            large.append(folder.name)
        else:
            found.append(_prompts(folder, index))
    return np.concatenate(found), tuple(large)


def _folders(index: RunIndex) -> list[Path]:
    """Return the folders of evaluations right below the run; links are not followed."""
    if not isinstance(index.path, Path):
        return []
    try:
        inside = sorted(index.path.iterdir())
    except OSError:
        return []
    return [
        each for each in inside if names_evaluation(each.name) and each.is_dir() and not each.is_symlink()
    ]


def _prompts(folder: Path, run: RunIndex) -> np.ndarray:
    """Return the hashes of the prompts of the evaluation in a folder; empty if it holds no log.

    It is read once, so a last line without a newline counts.
    """
    index = RunIndex(folder, folder.name, Reading(jobs=0, cache=False), limits=run.limits)
    index.rescan()
    while index.read():
        pass
    index.read_last_lines()
    snapshot = index.view.snapshot
    return snapshot.prompts(snapshot.alive_rows)
