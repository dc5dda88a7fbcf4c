"""Frameworks' own writers on small made-up batches: ``python -m tests.upstream.writers NAME FOLDER``.

Runs with the Python of the training environment, which has torch.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.upstream.sources import load


class Letters:
    """A tokenizer with one token per character."""

    pad_token_id = 0

    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(chr(number) for number in (ids.tolist() if hasattr(ids, "tolist") else ids) if number)

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


TOKENS = Letters()


def padded(texts: list[str], *, left: bool = False) -> torch.Tensor:
    """Return the texts' ids as a matrix padded with 0."""
    width = max(map(len, texts))
    rows = [
        [0] * (width - len(text)) + TOKENS.encode(text) if left else TOKENS.encode(text) for text in texts
    ]
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


# -- verl --------------------------------------------------------------------------------------------


def verl_v1(folder: Path) -> None:
    """Dump two steps of verl's V1 trainer: two prompts, two sessions each, one with a second turn."""
    names = load(
        "verl/trainer/ppo/v1/trainer_base.py",
        "PPOTrainer._write_generations", "PPOTrainer._dump_generations", "PPOTrainer._log_rollout_data",
        marked_timer=lambda *_, **__: nullcontext(), tq=SimpleNamespace(kv_batch_get=_verl_queue), os=os,
        json=json, np=np,
    )  # fmt: skip
    trainer = SimpleNamespace(tokenizer=TOKENS, _dump_futures=[], _dump_executor=_Now())
    trainer._write_generations = names._write_generations
    trainer._dump_generations = lambda **given: names._dump_generations(trainer, **given)
    for step in (1, 2):
        trainer.global_steps = step
        batch = SimpleNamespace(keys=list(VERL), partition_id="train")
        names._log_rollout_data(trainer, batch, {}, str(folder))


#: Prompt, response and score by verl's key, ``{prompt}_{session}_{turn}``, and a row that pads the batch.
VERL = {
    "a1_0_0": ("2 + 2?", "4 🙂", 1.0),
    "a1_1_0": ("2 + 2?", "five", 0.0),
    "b2_0_0": ("月?", "moon", 0.5),
    "b2_0_1": ("月? moon. Sure?", "yes", 0.5),
    "pad0123456789abcdef0123456789abcdef_0_0": ("?", "!", 0.0),
}


class _Padded(SimpleNamespace):
    def to_padded_tensor(self, padding: int) -> torch.Tensor:
        return padded(self.texts)


def _verl_queue(*, keys: list[str], select_fields: list[str], **_: Any) -> dict[str, Any]:
    rows = [VERL[key] for key in keys]
    return {
        "uid": np.array(keys),
        "prompts": _Padded(texts=[row[0] for row in rows]),
        "responses": _Padded(texts=[row[1] for row in rows]),
        "rm_scores": torch.tensor([[0.0, row[2]] for row in rows]),
        "reward_model": np.array([{"ground_truth": "4"}] * len(rows)),
    }


class _Now:
    def submit(self, function: Any, *args: Any) -> Any:
        function(*args)
        return SimpleNamespace(done=lambda: True, result=lambda: None)


# -- AReaL -------------------------------------------------------------------------------------------


def areal(folder: Path) -> None:
    """Dump two tasks of an asynchronous run, whose samples were written by several versions."""
    files = SimpleNamespace(os=SimpleNamespace(makedirs=_makedirs), open=_AsyncFile)
    localize = SimpleNamespace(localize=lambda traj: traj)
    dump = load(
        "areal/infra/workflow_executor.py", "WorkflowExecutor._dump_trajectory",
        RTensor=localize, aiofiles=files, os=os, json=json,
    )._dump_trajectory  # fmt: skip
    executor = SimpleNamespace(
        _get_dump_dir=lambda is_eval: str(folder),
        _get_tokenizer=lambda: TOKENS,
        inference_engine=None,
        logger=None,
    )
    for task, versions in ((17, [1, 2]), (18, [2, 2])):
        prompt, responses = "2 + 2?", ["4", "five"]
        ids = padded([prompt + response for response in responses])
        traj = {
            "input_ids": ids,
            "attention_mask": (ids > 0).long(),
            "loss_mask": torch.tensor(
                [[int(j >= len(prompt) and i > 0) for j, i in enumerate(row)] for row in ids]
            ),
            "rewards": torch.tensor([1.0, 0.0]),
            "versions": torch.tensor(versions),
        }
        asyncio.run(dump(executor, traj, task, False))


async def _makedirs(path: str, exist_ok: bool) -> None:
    os.makedirs(path, exist_ok=exist_ok)


class _AsyncFile:
    def __init__(self, path: str, mode: str) -> None:
        self.file = open(path, mode)  # noqa: SIM115  closed at the end of the context

    async def __aenter__(self) -> _AsyncFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.file.close()

    async def write(self, text: str) -> None:
        self.file.write(text)


# -- SkyRL -------------------------------------------------------------------------------------------


def skyrl(folder: Path) -> None:
    """Dump the evaluation of two data sets, one with a reward per token."""
    names = load(
        "skyrl/train/utils/trainer_utils.py", "dump_per_dataset_eval_results", "sanitize_data_source",
        json=json, logger=SimpleNamespace(info=print),
    )  # fmt: skip
    for step in (5, 10):
        target = folder / f"global_step_{step}_evals"
        target.mkdir(parents=True)
        output = {
            "prompt_token_ids": [TOKENS.encode("2 + 2?"), TOKENS.encode("月?")],
            "response_ids": [TOKENS.encode("4"), TOKENS.encode("moon")],
            "rewards": [1.0, [0.0, 0.25, 0.0, 0.5]],
            "stop_reasons": ["stop", "length"],
        }
        names.dump_per_dataset_eval_results(
            target,
            TOKENS,
            output,
            ["math/x", None],
            ["calc", "calc"],
            [{"a": 1}, {"a": 2}],
            {"eval/all/avg": 0.8},
        )


def main() -> None:
    """Run the writer that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    writers = {"verl_v1": verl_v1, "areal": areal, "skyrl": skyrl}
    writers[name](folder)


if __name__ == "__main__":
    main()
