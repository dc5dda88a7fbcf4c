"""Small runs for gates: seeds of one training, and one that gets worse at a step."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

HOSTILE = "<script>alert(1)</script>\x1b[31m\x00"


def write_seed(
    folder: Path,
    seed: int,
    *,
    steps: Iterable[int] = range(1, 31),
    fall: float = 0.0,
    since: int = 16,
    groups: int = 4,
    prompts: str = "question",
    **fields: Any,
) -> Path:
    """Write a run with groups of four; from step ``since`` on the chance of a reward is lower by ``fall``."""
    rng = np.random.default_rng(seed)
    offset = rng.normal(0, 0.01)
    folder.mkdir(parents=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in steps:
            chance = 0.6 + offset - (fall if step >= since else 0.0)
            for index in range(groups * 4):
                row = {
                    "step": step,
                    "prompt": f"{prompts} {(step * groups + index // 4) % 40} {HOSTILE}",
                    "response": f"{HOSTILE} {'word ' * int(rng.normal(40, 4))}",
                    "reward": float(rng.random() < chance),
                    "group": str(index // 4),
                } | fields
                file.write(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n")
    return folder


def write_baselines(root: Path, count: int = 4, **options: Any) -> list[Path]:
    """Write some seeds of the same training."""
    return [write_seed(root / f"base{seed}", seed, **options) for seed in range(1, count + 1)]
