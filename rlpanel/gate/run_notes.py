"""Notes on a comparison of runs: ranges, resumes, prompts and scales that it leaves out or depends on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpanel.gate.gate_numbers import GateNumber
from rlpanel.gate.run_series import AlignedWindows, GateRun
from rlpanel.number_text import number as text

#: Fewest common steps, and most windows.
MIN_STEPS, MAX_WINDOWS = 5, 100
#: By how much less the new run may share prompts with the baselines than they share with each other.
_LESS = 0.2
#: Least share of each run's samples that have prompts of all runs.
_MIN_SHARED = 0.2
#: Numbers whose scale a reward function sets, the factor of another scale, and the steps at its start.
_REWARDS, _SCALE, _FIRST = ("reward", "valid_reward"), 3.0, 5


def run_notes(runs: Sequence[GateRun]) -> tuple[str, ...]:
    """Return notes on resumed runs, repeated names and a single baseline."""
    found = []
    for run in runs:
        snapshot = run.run.snapshot
        if snapshot.restarts:
            steps = ", ".join(f"{step:,}" for step in snapshot.restarts[:5])
            found.append(f"{run.name} was resumed at step {steps}; samples of older attempts do not count.")
        if len(run.steps) < len(snapshot.steps.values):
            found.append(f"The newest step of {run.name} is not complete and does not count.")
    paths = [str(run.run.index.path) for run in runs]
    if paths[0] in paths[1:]:
        found.append(f"{runs[0].name} is also one of its baselines, so that it looks less different.")
    if len(set(paths[1:])) < len(paths) - 1:
        found.append("A baseline is given twice, so that the spread looks smaller than it is.")
    if len(runs) == 2:
        found.append(
            "With one baseline only the noise within the runs is known, not the spread between seeds: "
            "the gate can pass, or say that it cannot tell."
        )
    return tuple(found)


def range_notes(runs: Sequence[GateRun], aligned: AlignedWindows, windows: int) -> tuple[str, ...]:
    """Return notes on steps that are left out, and on the number of windows."""
    found, axis = [], runs[0].align
    for number, run in enumerate(runs):
        left = len(run.steps) - aligned.steps(number)
        if left:
            found.append(
                f"{left:,} of the {len(run.steps):,} steps of {run.name} lie outside of the common range of "
                f"{axis} {aligned.low:,.0f} to {aligned.high:,.0f}, and are left out."
            )
    if aligned.count < windows:
        found.append(f"{aligned.count} windows instead of {windows}: a run has no step in some of them.")
    return tuple(found)


def other_prompts(runs: Sequence[GateRun]) -> tuple[str, str]:
    """Return a note on the prompts, and why runs with other prompts cannot be compared.

    If the new run shares fewer prompts with the baselines than they share with each other, only the samples
    of prompts of all runs are compared.
    """
    known = [run.prompts for run in runs]
    share = [
        [_share(one, other) if one is not other else float("nan") for other in known[1:]] for one in known
    ]
    own = float(np.mean(share[0]))
    if len(runs) == 2:
        less = f"{own:.0%} of the samples of {runs[0].name} have a prompt of {runs[1].name}"
        return (f"{less}: other prompts may explain a difference." if own < 1 - _LESS else ""), ""
    usual = float(np.nanmean(share[1:]))
    if own >= usual - _LESS:
        return "", ""
    common = known[0][0]
    for hashes, _ in known[1:]:
        common = np.intersect1d(common, hashes, assume_unique=True)
    kept = [float(counts[np.isin(hashes, common)].sum() / counts.sum()) for hashes, counts in known]
    said = (
        f"{own:.0%} of the samples of {runs[0].name} have a prompt of the baselines, which share {usual:.0%} "
        "with each other"
    )
    if min(kept) < _MIN_SHARED:
        return "", f"{said}: the new run has other prompts"
    for run in runs:
        run.only_prompts(common)
    parts = ", ".join(f"{each:.0%} of {run.name}" for run, each in zip(runs, kept, strict=True))
    return f"{said}: only the {len(common):,} prompts of all runs are compared ({parts}).", ""


def other_scale(number: GateNumber, runs: Sequence[GateRun], *, begin: bool) -> str:
    """Return that the rewards of the new run have another scale than those of the baselines; else empty.

    Parameters
    ----------
    number : GateNumber
    runs : sequence of GateRun
    begin : bool
        Only the first steps count, in which a model that gets worse cannot be told from its baselines: then a
        smaller scale counts, too.
    """
    if number.name not in _REWARDS:
        return ""
    sizes = []
    for run in runs:
        sums, weights = run.parts(number)
        known = (weights > 0) & ((run.rows.position < _FIRST) if begin else True)
        sizes.append(float(np.ptp(sums[known] / weights[known])) if known.any() else 0.0)
    new, least, most = sizes[0], min(sizes[1:]), max(sizes[1:])
    if min(new, least) <= 0 or (new <= _SCALE * most and not (begin and new * _SCALE < least)):
        return ""
    when = " from the start" if begin else ""
    return (
        f"it has another scale in {runs[0].name}{when} (range {text(new)}, in the baselines {text(most)}): "
        "another reward function is not compared"
    )


def _share(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the share of a run's samples whose prompt the other one has."""
    hashes, counts = one
    return float(counts[np.isin(hashes, other[0], assume_unique=True)].sum() / max(counts.sum(), 1))
