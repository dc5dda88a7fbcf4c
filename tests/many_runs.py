"""Many small runs in folders; three are broken: it collapses, never gets a reward, or is unreadable."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from tests.factories import append

LOG = "rollout_data_rank_0.jsonl"
#: The broken runs, by what is wrong with them.
COLLAPSES, NEVER, UNREADABLE = "math/lr3e-6-seed0", "vlm/lr1e-6-seed1", "code/lr2e-6-seed0"
FOLDERS = ("math", "vlm", "code", "couplets")
RATES = ("1e-6", "2e-6", "3e-6")


def write_many(root: Path, count: int = 200, *, steps: int = 24, samples: int = 8) -> list[str]:
    """Write runs whose newest lines are a minute to days old, and return their names."""
    names: list[str] = []
    now = time.time()
    for number in range(count):
        folder, rate = FOLDERS[number % len(FOLDERS)], RATES[(number // len(FOLDERS)) % len(RATES)]
        name = f"{folder}/lr{rate}-seed{number // (len(FOLDERS) * len(RATES))}"
        names.append(name)
        path = root / name
        path.mkdir(parents=True)
        if name == UNREADABLE:
            (path / LOG).write_text('{"step": 1, "prompt": "cut o')
        else:
            append(path / LOG, *_lines(name, steps, samples))
            config = {"learning_rate": float(rate), "seed": number % 7, "beta": 0.04, "max_steps": steps}
            (path / "run.json").write_text(json.dumps(config))
        age = 5.0 if number == 0 else 900.0 * number
        os.utime(path / LOG, (now - age, now - age))
    return names


def _lines(name: str, steps: int, samples: int) -> list[bytes]:
    chance, lines = random.Random(name), []
    for step in range(1, steps + 1):
        solved = min(0.85, 0.3 + 0.6 * step / steps)
        if name == NEVER:
            solved = 0.0
        elif name == COLLAPSES and step > 0.6 * steps:
            solved = 0.02
        for index in range(samples):
            prompt = index // 4 + 2 * (step % 5)
            made = {
                "step": step,
                "prompt": f"What is {prompt} + 1?",
                "response": " ".join(
                    chance.choice(("so", "two", "and", "add")) for _ in range(chance.randint(4, 12))
                ),
                "reward": float(chance.random() < solved),
                "group": f"{step}-{index // 4}",
            }
            lines.append(json.dumps(made).encode() + b"\n")
    return lines
