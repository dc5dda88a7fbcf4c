"""Writes pairs of small runs: the same prompts, rewards drawn around the prompt's own level."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rlpanel.divergence.run_divergence import ComparedSide, Divergence, find_divergence
from rlpanel.divergence.step_pairs import Align
from tests.bench.finding_scores import open_folder

STEPS, PROMPTS, SAMPLES = 30, 8, 4


def rewards(seed: int, *, steps: int = STEPS, onset: int | None = None, shift: float = 0.6) -> np.ndarray:
    """Return rewards, shape (steps, PROMPTS, SAMPLES), which fall by ``shift`` from a step on."""
    level = np.random.default_rng(0).normal(0, 2, (steps, PROMPTS, 1))  # of the prompt, in both runs
    drawn = level + np.random.default_rng(seed).normal(0, 0.5, (steps, PROMPTS, SAMPLES))
    if onset is not None:
        drawn[onset:] -= shift
    return drawn


def write(
    folder: Path, values: np.ndarray, *, name: str = "reward", prompt: str = "q", **fields: Any
) -> Path:
    """Write a run of rewards, shape (steps, prompts, samples); each step has prompts of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step, groups in enumerate(values):
            for at, group in enumerate(groups):
                for sample, value in enumerate(group.tolist()):
                    row = {
                        "step": step,
                        "prompt": f"{prompt} {step} {at}",
                        "response": f"r {step} {at} {sample} {value:.3f}",
                        "reward": value,
                        **fields,
                    }
                    if name != "reward":
                        row["rewards"] = {name: value}
                    file.write(json.dumps(row) + "\n")
    return folder


def compared(here: Path, there: Path, align: Align = "step") -> Divergence:
    """Return the result for two folders."""
    sides = [ComparedSide(index, index.view) for index in map(open_folder, (here, there))]
    *_, found = find_divergence(*sides, align)
    return found
