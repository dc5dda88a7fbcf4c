"""TRL's files of completions."""

from __future__ import annotations

import math
import os
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from tests.upstream.sources import load_class


class _Trainer:
    """What TRL's trainer inherits."""

    def log(self, *_: Any) -> None:
        """Do nothing."""


def completions(folder: Path) -> None:
    """Log three steps with an evaluation after the second, then step 3 again with other samples, resumed."""
    kind = load_class(
        "trl/trainer/grpo_trainer.py", "GRPOTrainer", "log", base=_Trainer, pd=pd, os=os, math=math,
        is_rich_available=lambda: False, strip_images_from_messages=lambda messages: messages,
    )  # fmt: skip
    trainer = kind()
    trainer.args = SimpleNamespace(report_to=[], output_dir=str(folder))
    trainer.accelerator, trainer.log_completions = SimpleNamespace(is_main_process=True), True
    trainer.model, trainer.state = SimpleNamespace(training=True), SimpleNamespace(global_step=0)
    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    trainer._logs = {name: deque(maxlen=4) for name in ("images", "prompt", "completion", "advantages")}
    trainer._logs["rewards"] = {"right": deque(maxlen=4), "short": deque(maxlen=4)}
    trainer._logs["extra"] = {"level": deque(maxlen=4)}
    (folder / "completions").mkdir()
    # Weights and the scalars of the evaluation, as rlpanel's recorder and transformers write them.
    (folder / "run.json").write_text('{"reward_weights": [1.0, 0.5]}')
    history = '{"step": 2, "loss": 0.1}, {"step": 2, "eval_loss": 0.1, "eval_reward": 0.25}'
    (folder / "trainer_state.json").write_text('{"global_step": 3, "log_history": [' + history + "]}")
    for step, prompt, text, training in (
        (1, "2 + 2?", "4", True), (2, "2 + 2?", "4", True), (2, "月?", "moon", False),
        (3, "3 + 3?", "lost", True), (3, "3 + 3?", "6", True),
    ):  # fmt: skip
        trainer.model.training, trainer.state.global_step = training, step
        _fill(trainer._logs, prompt, text)
        trainer.log({"loss": 0.1} if training else {"eval_loss": 0.1})


def _fill(logs: Any, prompt: str, right: str) -> None:
    logs["prompt"].extend([prompt] * 4)
    logs["completion"].extend([right, "five", "five", "six"])
    logs["advantages"].extend([1.5, -0.5, -0.5, -0.5])
    logs["rewards"]["right"].extend([1.0, 0.0, 0.0, 0.0])
    logs["rewards"]["short"].extend([1.0, 1.0, 0.0, 0.0])
    logs["extra"]["level"].extend(["easy"] * 4)
