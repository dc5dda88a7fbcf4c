"""Prompts of two runs' evaluations, and whether one run trains on some that the other does not."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from pathlib import Path
from statistics import NormalDist

import numpy as np

from rlpanel.divergence.paired_streams import PairedStream
from rlpanel.divergence.parting import Parting
from rlpanel.divergence.step_pairs import StepPairs
from rlpanel.findings.engine.evaluation_run import evaluation_prompts
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.settings import Reading
from rlpanel.sources.discovery.file_names import names_evaluation
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

# -- held out parting ----------------------------------------------------------------------------------
# Tests whether one of two runs trains on prompts of an evaluation that the other run does not train on.
#
# A prompt that only one run has seen is as likely to be in either run if they draw from the same data. So the
# number of such prompts of one run is binomial with a chance of one half: the sign test (Dixon and Mood 1946,
# doi:10.2307/2280577). Prompts are counted once, however often and in whatever steps they come. Drawing
# without replacement makes the counts vary less than that, so that the test errs on the side of no
# difference.


#: Most prompts of which the chance is summed up; with more, it is that of as many.
_MAX_PROMPTS = 1000


def with_held_out(
    partings: Sequence[Parting],
    stream: PairedStream,
    chance: float,
    contexts: tuple[RuleContext, RuleContext],
    pairs: StepPairs,
    held: np.ndarray,
) -> list[Parting]:
    """Return the partings with that of prompts of an evaluation, the earliest first.

    Parameters
    ----------
    partings : sequence of Parting
    stream : PairedStream
        Shares of the samples with such a prompt.
    chance : float
        Chance of a parting between equal runs.
    contexts : (RuleContext, RuleContext)
        Both runs.
    pairs : StepPairs
    held : ndarray of int
        Hashes of the prompts in the evaluations of both runs.
    """
    found = _parting(stream, chance, contexts, pairs, held)
    if found is None:
        return list(partings)
    others = [each for each in partings if each.stream is not stream]
    return sorted([*others, found], key=lambda each: (each.onset, -min(each.z, 1e6)))


def sign_chance(count: int, of: int) -> float:
    """Return the chance that ``count`` or more of ``of`` prompts are in the same run, whichever it is."""
    if of > _MAX_PROMPTS:
        count, of = round(count * _MAX_PROMPTS / of), _MAX_PROMPTS
    return min(1.0, 2 * sum(comb(of, each) for each in range(count, of + 1)) / 2**of)


def _parting(
    stream: PairedStream,
    chance: float,
    contexts: tuple[RuleContext, RuleContext],
    pairs: StepPairs,
    held: np.ndarray,
) -> Parting | None:
    seen = []
    for context, pair in zip(contexts, (pairs.here, pairs.there), strict=True):
        at, hashes = pair[context.row_steps], context.snapshot.prompts(context.rows)
        known = (at >= 0) & np.isin(hashes, held)
        seen.append((at[known], hashes[known]))
    own = [np.unique(hashes[~np.isin(hashes, other)]) for (_, hashes), (_, other) in (seen, seen[::-1])]
    more = int(len(own[1]) >= len(own[0]))
    found = sign_chance(len(own[more]), len(own[0]) + len(own[1]))
    if found > chance:
        return None
    z = float(NormalDist().inv_cdf(1 - max(found, 1e-15) / 2))
    at, hashes = seen[more]
    affected = at[np.isin(hashes, own[more])]
    onset, last = int(affected.min()), int(affected.max())
    part = slice(onset, last + 1)
    here, there = (float(np.nanmean(each[part])) for each in (stream.here, stream.there))
    ongoing = last + max(last - onset, 1) >= len(pairs) - 1
    return Parting(stream, onset, last, ongoing, onset == 0, z, here, there, float("nan"), sudden=True)


# -- evaluation prompts --------------------------------------------------------------------------------
# Prompts of a run's evaluations: of its own splits, and of evaluations that are runs in folders below it.
#
# rlpanel's recorder writes an evaluation of TRL into the folder ``eval`` of the run, so that its samples do
# not count for the training.


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
