"""Runs that nothing is wrong with, in flavours whose numbers are easily mistaken for trouble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.broken_runs.advantages import add_advantages, group_statistics
from tests.bench.broken_runs.realistic_run import draw_rewards, draw_samples, draw_tokens
from tests.bench.broken_runs.run_setup import draw_setup, stationary
from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.broken_runs.vocabulary import special

#: Limits of the settings by flavour, see `draw_setup`.
FLAVOURS: dict[str, dict[str, Any]] = {
    "usual": {"samples": (32, 256)},
    "usual, long": {"steps": (80, 200), "samples": (16, 96)},
    "usual, few steps": {"steps": (8, 14)},
    "tiny": {"steps": (8, 30), "samples": (16, 24)},
    "large": {"steps": (60, 120), "samples": (192, 256)},
    "stationary PPO": {"algorithm": "ppo", "step_size": 0.03, "steps": (40, 100)},
    "stationary GRPO": {"algorithm": ["grpo", "rloo"], "steps": (40, 120)},
    "PPO": {"algorithm": "ppo"},
    "sparse reward": {"reward": "binary", "curve": "late", "start": (-8.0, -6.0), "gain": (6.0, 8.0)},
    "short numbers": {"text": "numbers", "reward": "binary"},
    "multiple choice": {"text": "choice", "reward": "binary"},
    "heavy-tailed reward": {"reward": "heavy"},
    "reward model": {"reward": "model", "curve": ["rise", "late"]},
    "reward components": {"reward": "parts", "valid": True},
    "component that abstains": {"reward": "parts", "labels": ("lang", "data_source")},
    "curriculum": {"curriculum": 0.8, "labels": ("difficulty",), "curve": "rise", "gain": (1.4, 2.2)},
    "late rise": {"curve": "late", "gain": (2.0, 3.0)},
    "wandering reward": {"curve": "stationary", "wander": 0.2, "steps": (40, 150)},
    "noisy steps": {"step_noise": 0.35},
    "longer and longer": {"text": ["words", "code"], "growth": (1.8, 2.0)},
    "shorter and shorter": {"text": ["words", "code"], "growth": (0.5, 0.55)},
    "some truncated": {"text": "words", "limit_factor": (1.25, 1.5), "growth": (0.9, 1.1)},
    "rarely clipped": {"step_size": 0.06, "steps": (20, 80)},
    "languages": {"languages": ("en", "zh", "ru"), "labels": ("lang", "data_source"), "text": "words"},
    "Chinese questions, code answers": {"languages": ("zh",), "text": ["code", "choice"]},
    "prompt restated": {"text": "words", "limit_factor": (7.0, 8.0), "restated": 0.15},
    "cut characters": {
        "text": "words",
        "languages": ("zh",),
        "limit_factor": (1.6, 1.9),
        "growth": (0.9, 1.0),
    },
    "end token in the text": {"ending": ["<|im_end|>", "</s>"], "text": ["words", "numbers"]},
    "KL from 0": {"ref": True, "kl": (0.15, 0.4), "curve": ["rise", "late"]},
    "entropy falls": {"entropy": True, "surprisal_fall": (0.4, 0.5), "text": "words"},
    "eight ranks": {"ranks": 8, "samples": (64, 128), "steps": (40, 120)},
    "batch-scaled advantages": {"algorithm": "grpo", "run_json": True},
    "REINFORCE++": {"algorithm": "grpo", "run_json": [True, True, False]},
    "rare timeouts": {"algorithm": ["grpo", "rloo"], "samples": (64, 192)},
    "still being written": {"ranks": [2, 4], "samples": (64, 128)},
}
_STATIONARY = ("stationary PPO", "stationary GRPO")


def _abstain(table: SampleTable) -> None:
    """Remove a reward component of all samples of two data sources, as TRL's reward functions may."""
    away = table.labels["data_source"] != "gsm8k"
    table.null["rewards/accuracy"] = away


def _cut(table: SampleTable) -> None:
    """End half of the truncated responses inside a character."""
    rows = table.truncated & (table.luck < 0.5)
    table.ids[table.bounds[1:][rows] - 1] = special("�")


def _scale_by_batch(table: SampleTable) -> None:
    """Divide advantages by the standard deviation of the step, as TRL's ``scale_rewards="batch"`` does."""
    mean, _ = group_statistics(table, table.numbers["reward"])
    _, std = _step_statistics(table)
    table.numbers["advantage"] = (table.numbers["reward"] - mean) / (std + 1e-4)
    table.constants["scale_rewards"] = "batch"


def _normalize_by_step(table: SampleTable) -> None:
    """Compute advantages as REINFORCE++ does: with mean and standard deviation of the step."""
    mean, std = _step_statistics(table)
    table.numbers["advantage"] = (table.numbers["reward"] - mean) / (std + 1e-4)
    table.constants = {"algo": "reinforce_plus_plus"}


def _step_statistics(table: SampleTable) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the rewards of each sample's step."""
    reward, count = table.numbers["reward"], np.bincount(table.at)
    mean = np.bincount(table.at, reward) / count
    std = np.sqrt(np.bincount(table.at, (reward - mean[table.at]) ** 2) / count)
    return mean[table.at], std[table.at]


def _time_out(table: SampleTable) -> None:
    """Remove 0.3 % of the rewards in all steps, because the verifier's sandbox timed out."""
    gone = table.chance(0.003)
    table.null |= dict.fromkeys((name for name in table.numbers if name.startswith("reward")), gone)
    table.numbers["advantage"] = np.where(gone, 0.0, table.numbers["advantage"])


def _half_written(table: SampleTable) -> None:
    """Leave out the last step's lines of the last rank, and half of the other ones."""
    last = table.at == len(table.setup.steps) - 1
    table.written &= ~(last & ((table.rank == table.setup.ranks - 1) | (table.luck < 0.5)))


_CHANGES: dict[str, Callable[[SampleTable], None]] = {
    "component that abstains": _abstain,
    "cut characters": _cut,
    "batch-scaled advantages": _scale_by_batch,
    "REINFORCE++": _normalize_by_step,
    "rare timeouts": _time_out,
    "still being written": _half_written,
}


def healthy_run(number: int) -> tuple[SampleTable, str]:
    """Return a healthy run and the name of its flavour; the same for the same number."""
    flavour = list(FLAVOURS)[number % len(FLAVOURS)]
    draw = np.random.default_rng([number, 17])
    limits: dict[str, Any] = {"steps": (12, 120), "samples": (16, 192)} | FLAVOURS[flavour]
    setup = draw_setup(draw, **limits)
    table = draw_samples(stationary(setup) if flavour in _STATIONARY else setup, draw)
    draw_tokens(table)
    draw_rewards(table)
    add_advantages(table)
    _CHANGES.get(flavour, lambda _: None)(table)
    return table, flavour
