"""ms-swift's tables of completions: transformers' trainer, Megatron's and Ray's."""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Queue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import torch

from tests.upstream.sources import class_with, load, load_class


def _jsonl_writer() -> Any:
    """Return ms-swift's writer of completions."""
    check = load("swift/utils/utils.py", "check_json_format", torch=torch, Sequence=Sequence, Mapping=Mapping)
    return load(
        "swift/utils/io_utils.py", "JsonlWriter", is_master=lambda: True, is_last_rank=lambda: True, os=os,
        json=json, Queue=Queue, Thread=Thread, dist=SimpleNamespace(is_initialized=lambda: False),
        check_json_format=check.check_json_format,
    ).JsonlWriter  # fmt: skip


class _Trainer:
    """What ms-swift's trainers inherit; `log` of transformers is not needed here."""

    def log(self, *_: Any) -> None:
        """Do nothing."""


def hf(folder: Path) -> None:
    """Log two steps, an evaluation after the second, and the end, as transformers' trainer does."""
    accelerate = SimpleNamespace(is_main_process=True)
    parsed = SimpleNamespace(parse=lambda text: tuple(int(part) for part in text.split(".")[:2]))
    kind = load_class(
        "swift/rlhf_trainers/grpo_trainer.py", "GRPOTrainer", "log", base=_Trainer, torch=torch,
        version=parsed, transformers=SimpleNamespace(__version__="5.0.0"), wandb=None,
    )  # fmt: skip
    trainer = kind()
    trainer.model, trainer.state = SimpleNamespace(training=True), SimpleNamespace(global_step=0)
    trainer.accelerator, trainer.log_completions = accelerate, True
    trainer.args = SimpleNamespace(log_entropy=False, report_to=[])
    trainer._metrics = {"train": {}, "eval": {}}
    trainer._logs = {name: deque(maxlen=4) for name in ("prompt", "completion", "advantages")}
    trainer._logs["rewards"] = {"Format": deque(maxlen=4)}
    trainer.jsonl_writer = _jsonl_writer()(str(folder / "completions.jsonl"))
    for step in (1, 2):
        _fill(trainer._logs, "2 + 2?", f"4 in step {step}")
        trainer.state.global_step = step
        trainer.log({"loss": 0.1})
    _fill(trainer._logs, "月?", "moon")
    trainer.model.training = False
    trainer.log({"eval_loss": 0.1})
    trainer.log({"train_runtime": 1.0})


def _fill(logs: Any, prompt: str, right: str) -> None:
    logs["prompt"].extend([prompt] * 4)
    logs["completion"].extend([right, "five", "five", "six"])
    logs["advantages"].extend([1.5, -0.5, -0.5, -0.5])
    logs["rewards"]["Format"].extend([1.0, 0.0, 0.0, 0.0])


def megatron(folder: Path) -> None:
    """Log two generations of the Megatron GRPO trainer."""
    mixin = load_class(
        "swift/megatron/trainers/rollout_mixin.py", "MegatronRolloutMixin", "_flush_log_completions",
        "_build_log_table", base=_Trainer, deque=deque, defaultdict=defaultdict,
    )  # fmt: skip
    kind = load_class(
        "swift/megatron/trainers/grpo_trainer.py", "MegatronGRPOTrainer", "_build_log_table", base=mixin
    )
    trainer = kind()
    trainer.log_completions = trainer.is_main_process = True
    trainer._last_logged_step, trainer.args = -1, SimpleNamespace(report_to=[])
    trainer._logs = {name: deque() for name in ("prompt", "completion", "advantages")}
    trainer._logs["rewards"] = defaultdict(deque)
    trainer.jsonl_writer = _jsonl_writer()(str(folder / "completions.jsonl"), write_on_rank="last")
    for step in (1, 2):
        _fill(trainer._logs, "2 + 2?", f"4 in step {step}")
        trainer._step = step
        trainer._flush_log_completions()


def ray(folder: Path) -> None:
    """Log two iterations of the Ray trainer."""
    file, method = "swift/ray/megatron/base_trainer.py", "_maybe_log_completions"
    kind = load_class(file, class_with(file, method), method, JsonlWriter=_jsonl_writer(), os=os)
    trainer = kind()
    trainer.args = SimpleNamespace(log_completions=True, output_dir=str(folder))
    trainer._decode_log_content = trainer._format_log_prompt = str
    for step in (0, 1):
        turns = [
            [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": each}] for each in "45"
        ]
        samples = [SimpleNamespace(messages=turn) for turn in turns]
        trainer._maybe_log_completions(samples, rewards=[1.0, 0.0], gen_step=step)
