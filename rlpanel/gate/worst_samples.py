"""Samples of the new run that show a worsening, with what the baselines have for the same prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpanel.gate.gate_numbers import GateNumber
from rlpanel.gate.gate_result import GateSample
from rlpanel.gate.run_series import GateRun


def worst_samples(
    number: GateNumber, runs: Sequence[GateRun], steps: tuple[int, int], effect: float, most: int
) -> tuple[GateSample, ...]:
    """Return samples of some steps that lie farthest from the baselines on their prompt, one for each prompt.

    Parameters
    ----------
    number : GateNumber
    runs : sequence of GateRun
        The new run first.
    steps : tuple of int
        First and last step of the new run.
    effect : float
        New run minus baselines; its sign is the side.
    most : int
    """
    new, *others = runs
    snapshot = new.run.snapshot
    sums, weights = new.parts(number)
    step = snapshot.metadata("step")[new.rows.rows]
    chosen = np.flatnonzero((weights > 0) & (step >= steps[0]) & (step <= steps[1]))
    if not len(chosen) or most < 1:
        return ()
    values = sums[chosen] / weights[chosen]
    hashes, prompt = np.unique(snapshot.prompts(new.rows.rows[chosen]), return_inverse=True)
    usual = _of_prompts(number, others, hashes, steps)[prompt]
    worsening = np.sign(effect) * (_distance(number, values) - _distance(number, usual))
    # Prompts that no baseline has come last.
    order = np.lexsort((-np.sign(effect) * _distance(number, values), -worsening))
    _, first = np.unique(prompt[order], return_index=True)
    picked = order[np.sort(first)[:most]]
    return tuple(
        GateSample(
            snapshot.uid(int(new.rows.rows[chosen[at]])),
            int(new.rows.rows[chosen[at]]),
            int(step[chosen[at]]),
            float(values[at]),
            float(usual[at]),
        )
        for at in picked.tolist()
    )


def _distance(number: GateNumber, values: np.ndarray) -> np.ndarray:
    return values if number.aim is None else np.abs(values - number.aim)


def _of_prompts(
    number: GateNumber, others: Sequence[GateRun], hashes: np.ndarray, steps: tuple[int, int]
) -> np.ndarray:
    """Return the mean over the baselines' samples of each prompt, shape (P,): in the steps, else in all."""
    totals = np.zeros((4, len(hashes)))
    for run in others:
        sums, weights = run.parts(number)
        snapshot = run.run.snapshot
        prompts = snapshot.prompts(run.rows.rows)
        at = np.searchsorted(hashes, prompts).clip(max=len(hashes) - 1)
        found = (weights > 0) & (hashes[at] == prompts)
        step = snapshot.metadata("step")[run.rows.rows]
        inside = found & (step >= steps[0]) & (step <= steps[1])
        for row, mask in ((0, inside), (2, found)):
            totals[row] += np.bincount(at[mask], sums[mask], len(hashes))
            totals[row + 1] += np.bincount(at[mask], weights[mask], len(hashes))
    with np.errstate(all="ignore"):
        return np.where(totals[1] > 0, totals[0] / totals[1], totals[2] / totals[3])
