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
    """Return samples of some steps that lie farthest on the side of the effect, one for each prompt.

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
    distance = np.abs(values - number.aim) if number.aim is not None else values
    order = np.argsort(-np.sign(effect) * distance, kind="stable")
    hashes = snapshot.prompts(new.rows.rows[chosen])
    _, first = np.unique(hashes[order], return_index=True)
    picked = order[np.sort(first)[:most]]
    return tuple(
        GateSample(
            snapshot.uid(int(new.rows.rows[chosen[at]])),
            int(new.rows.rows[chosen[at]]),
            int(step[chosen[at]]),
            float(values[at]),
            _of_prompt(number, others, hashes[at], steps),
        )
        for at in picked.tolist()
    )


def _of_prompt(
    number: GateNumber, others: Sequence[GateRun], prompt: np.uint64, steps: tuple[int, int]
) -> float:
    """Return the mean over the baselines' samples of a prompt: in the same steps, else in all steps."""
    near, every = [], []
    for run in others:
        sums, weights = run.parts(number)
        snapshot = run.run.snapshot
        found = (weights > 0) & (snapshot.prompts(run.rows.rows) == prompt)
        step = snapshot.metadata("step")[run.rows.rows]
        inside = found & (step >= steps[0]) & (step <= steps[1])
        every.append((sums[found].sum(), weights[found].sum()))
        near.append((sums[inside].sum(), weights[inside].sum()))
    total, weight = np.sum(near, axis=0) if sum(each[1] for each in near) else np.sum(every, axis=0)
    return float(total / weight) if weight else float("nan")
