"""verl's dump of training and validation, its trainer with rlpanel's hook, and its metrics."""

from __future__ import annotations

import json
import logging
import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.upstream.sources import load
from tests.upstream.writers.letters import TOKENS, padded

#: Prompt, response and score by verl's key, ``{prompt}_{session}_{turn}``, and a row that pads the batch.
ROWS = {
    "a1_0_0": ("2 + 2?", "4 🙂", 1.0),
    "a1_1_0": ("2 + 2?", "five", 0.0),
    "b2_0_0": ("月?", "moon", 0.5),
    "b2_0_1": ("月? moon. Sure?", "yes", 0.5),
    "pad0123456789abcdef0123456789abcdef_0_0": ("?", "!", 0.0),
}

#: Outputs of a validation by data set and session: each has the score of its session's last one.
VALIDATION = {
    ("adventure", "q1_0"): (["look", "open", "take key"], 1.0),
    ("adventure", "q1_1"): (["give up"], 0.0),
    ("qa", "q2_0"): (["no"], 0.0),
    ("qa", "q2_1"): (["moon"], 1.0),
}


def dump(folder: Path) -> None:
    """Dump three steps of training, a validation after the second, and steps 2 and 3 again, resumed."""
    queue = SimpleNamespace()
    names = load(
        "verl/trainer/ppo/v1/trainer_base.py",
        "PPOTrainer._write_generations", "PPOTrainer._dump_generations", "PPOTrainer._log_rollout_data",
        marked_timer=lambda *_, **__: nullcontext(), tq=queue, os=os,
        json=json, np=np,
    )  # fmt: skip
    trainer = SimpleNamespace(tokenizer=TOKENS, _dump_futures=[], _dump_executor=Now())
    trainer._write_generations = names._write_generations
    trainer._dump_generations = lambda **given: names._dump_generations(trainer, **given)
    for step, said in ((1, ""), (2, "lost "), (3, "lost "), (2, ""), (3, "")):
        queue.kv_batch_get = partial(_queue, said)
        trainer.global_steps = step
        batch = SimpleNamespace(keys=list(ROWS), partition_id="train")
        names._log_rollout_data(trainer, batch, {}, str(folder / "rollout"))
        if step == 2:
            trainer._dump_generations(**_validation(), dump_path=str(folder / "validation"))


def _validation() -> dict[str, Any]:
    """Return the columns that `_validate` gives to the dump."""
    rows = [
        (source, f"{session}_{turn}", text, score)
        for (source, session), (texts, score) in VALIDATION.items()
        for turn, text in enumerate(texts)
    ]
    sources, uids, texts, scores = (list(column) for column in zip(*rows, strict=True))
    return {
        "inputs": ["find the key"] * len(rows), "outputs": texts,
        "gts": ["key"] * len(rows), "scores": scores,
        "reward_extra_infos_dict": {"reward": scores, "data_source": sources, "uid": uids},
    }  # fmt: skip


class _Padded(SimpleNamespace):
    def to_padded_tensor(self, padding: int) -> torch.Tensor:
        return padded(self.texts)


def _queue(said: str, *, keys: list[str], select_fields: list[str], **_: Any) -> dict[str, Any]:
    rows = [ROWS[key] for key in keys]
    return {
        "uid": np.array(keys),
        "prompts": _Padded(texts=[row[0] for row in rows]),
        "responses": _Padded(texts=[said + row[1] for row in rows]),
        "rm_scores": torch.tensor([[0.0, row[2]] for row in rows]),
        "reward_model": np.array([{"ground_truth": "4"}] * len(rows)),
    }


class Now:
    """An executor that runs a function at once."""

    def submit(self, function: Any, *args: Any) -> Any:
        function(*args)
        return SimpleNamespace(done=lambda: True, result=lambda: None)


def hook(folder: Path) -> None:
    """Record a step of verl's V1 trainer beside its own dump, and the same step again, resumed."""
    from tests.upstream.verl_trainer import train_one_step

    for _ in range(2):
        train_one_step(folder, TOKENS, Now())


def metrics(folder: Path) -> None:
    """Write the rows of three steps of PPO, and the numbers that verl computes from their padded tensors."""
    computed = load(
        "verl/trainer/ppo/metric_utils.py", "_compute_response_info", "compute_data_metrics", torch=torch,
        logger=logging.getLogger(),
    )  # fmt: skip
    random = np.random.default_rng(3)
    for step in (1, 2, 3):
        rows = [_row(step, random) for _ in range(8)]
        batch = SimpleNamespace(batch=_tensors(rows), non_tensor_batch={})
        for name, entries in (
            ("rollout_data_rank_0.jsonl", rows),
            ("scalars.jsonl", [{"step": step, **computed.compute_data_metrics(batch)}]),
        ):
            with (folder / name).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)


def _row(step: int, random: np.random.Generator) -> dict[str, Any]:
    """Return a row of 2 to 12 tokens; a tool wrote some tokens, but not the last one."""
    length = int(random.integers(2, 13))
    mask = [*(random.random(length - 1) < 0.7), True]
    names = ("logprobs", "values", "returns", "advantages")
    arrays = {name: (-random.random(length)).tolist() for name in names}
    texts = {"prompt": "2 + 2?", "response": "4" * length}
    return {"step": step, **texts, "reward": random.normal(), "loss_mask": list(map(int, mask)), **arrays}


def _tensors(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    width = max(len(row["values"]) for row in rows)
    tensors = {
        name: torch.tensor([row[name] + [0] * (width - len(row[name])) for row in rows], dtype=torch.float32)
        for name in ("values", "returns", "advantages", "loss_mask")
    }
    scores = torch.zeros(len(rows), width)
    for index, row in enumerate(rows):
        scores[index, len(row["values"]) - 1] = row["reward"]
    lengths = torch.tensor([float(len(row["values"])) for row in rows])
    return tensors | {
        "token_level_scores": scores, "token_level_rewards": scores, "response_mask": tensors["loss_mask"],
        "prompts": torch.ones(len(rows), 6), "responses": torch.ones(len(rows), width),
        "prompt_length": torch.full((len(rows),), 6.0), "response_length": lengths,
    }  # fmt: skip
