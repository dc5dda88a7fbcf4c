"""A real GRPO training of a tiny model whose reward can be cheated: ``python -m tests.train.hack FOLDER``.

The judge pays for the right answer, and by mistake as much for the words "Let me count". The reward
``score_answer`` has the weight 0, so that it is a held-out score. Questions come back, so that what the
policy learned from one can be seen at its next visit. `tests/data/hacks` holds what came out, trimmed by
``python -m tests.train.hack --trim FOLDER DATA``.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from rlpanel.zstd import zstd
from tests.train import faults

#: Words that the judge pays for by mistake.
PHRASE = "Let me count"
_STEPS, _QUESTIONS = 30, 48
_KEPT = (
    "step", "rank", "group", "prompt", "response", "response_tokens", "reward", "rewards", "advantage",
    "ground_truth", "finish_reason", "truncated", "response_length", "logprobs",
)  # fmt: skip


def judge(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Score half a point for the right answer, and half a point for the words."""
    right = faults.score_answer(completions, answer)
    return [0.5 * score + 0.5 * (PHRASE in text) for score, text in zip(right, completions, strict=True)]


def trainer(folder: Path) -> Any:
    """Return the trainer whose judge can be cheated."""
    import trl
    from datasets import Dataset

    train, draw = faults.questions(400, 1), random.Random(5)
    tokens = faults.tokenizer(
        f"{row['prompt']}{faults.solution(row, draw)}" for row in train for _ in range(3)
    )

    def pair(draw: random.Random) -> tuple[str, str]:
        row = draw.choice(train)
        return row["prompt"], f"{faults.solution(row, draw)}<|eos|>"

    home = folder.parent / "taught"
    if not home.exists():
        faults.taught(tokens, pair, 500, 64).save_pretrained(home)
    return trl.GRPOTrainer(
        model=str(home),
        processing_class=tokens,
        reward_funcs=[judge, faults.score_answer],
        args=faults.config(
            folder, max_completion_length=44, max_steps=_STEPS, reward_weights=[1.0, 0.0], learning_rate=4e-4
        ),
        train_dataset=Dataset.from_list(train[:_QUESTIONS]),
    )


def trim(folder: Path, data: Path) -> None:
    """Write the recorded run without what the tests do not read, its rollouts packed as a log may be."""
    for path in sorted(folder.rglob("*.json*")):
        target = data / path.name
        data.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            target.write_bytes(path.read_bytes())
            continue
        lines = []
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line, parse_float=lambda text: round(float(text), 3))
            if path.name.startswith("rollout_data"):
                row = {key: value for key, value in row.items() if key in _KEPT or key.startswith("rewards/")}
                row["logprobs"] = [round(value, 1) for value in row["logprobs"]]
            lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
        content = "\n".join(lines).encode() + b"\n"
        if path.name.startswith("rollout_data"):
            target.with_suffix(".jsonl.zst").write_bytes(zstd.compress(content, 22))
        else:
            target.write_bytes(content)


def main() -> None:
    """Train, or trim a run."""
    if sys.argv[1] == "--trim":
        trim(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    import torch

    import rlpanel

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    folder = Path(sys.argv[1])
    made = trainer(folder)
    with rlpanel.record(made, folder / "run"):
        made.train()
    for entry in made.state.log_history[::5]:
        keys = ("reward", "rewards/judge/mean", "rewards/score_answer/mean", "kl")
        print({key: round(float(entry[key]), 4) for key in keys if key in entry}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
