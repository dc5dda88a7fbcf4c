"""tinker-cookbook's summaries of rollouts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.upstream.sources import load


def summaries(folder: Path) -> None:
    """Write two iterations of training and evaluations of two data sets; the second iteration twice."""
    names = load(
        "tinker_cookbook/rl/rollout_logging.py", "serialize_rollout_summaries",
        "write_rollout_summaries_jsonl", "_json_safe", safezip=partial(zip, strict=True), Path=Path,
        json=json, logger=None, deprecated=lambda **_: lambda function: function,
    )  # fmt: skip
    for iteration, first in ((0, 0.25), (1, 0.75), (1, 0.25)):
        for split in ("train", "eval/aime", "eval/gsm8k"):
            name = f"{split.replace('/', '_')}_rollout_summaries.jsonl"
            names.write_rollout_summaries_jsonl(
                folder / f"iteration_{iteration:06d}" / name, split=split, iteration=iteration,
                trajectory_groups_P=[_group(first), _group(0.5)], taglist_P=[["math"], ["code"]],
                sampling_client_steps_P=[iteration, iteration],
            )  # fmt: skip


def _group(first: float) -> Any:
    turns = [_step(3, first, False), _step(4, 0.0, True)]
    trajectory = SimpleNamespace(transitions=turns, final_ob=SimpleNamespace(length=20))
    return SimpleNamespace(
        trajectories_G=[trajectory, trajectory], final_rewards_G=[1.0, 0.0],
        metrics_G=[{"ok": 1.0}, {"ok": 0.0}], get_total_rewards=lambda: [1.0 + first, first],
    )  # fmt: skip


def _step(length: int, reward: float, done: bool) -> Any:
    tokens = SimpleNamespace(tokens=list(range(length)))
    return SimpleNamespace(
        ob=SimpleNamespace(length=9), ac=tokens, reward=reward, episode_done=done, metrics={"calls": 1.0},
        logs={"action": "add(2, 2)"},
    )  # fmt: skip
