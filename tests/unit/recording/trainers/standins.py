"""Stand-ins with the signatures of the frameworks; numpy arrays replace tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


class Tokenizer:
    """One letter per token; 0 is padding, 1 ends a response."""

    pad_token_id, eos_token_id = 0, 1
    all_special_ids = (0, 1)

    def decode(self, ids: list[int], skip_special_tokens: bool = False, **_: Any) -> str:
        return "".join("_$"[i] if i < 2 else chr(95 + i) for i in ids if i > 1 or not skip_special_tokens)


class Accelerator:
    process_index, num_processes, is_main_process = 0, 1, True


class TrainerOfAnotherVersion:
    """A GRPO trainer without the methods that are wrapped: only its reward functions are public."""

    def __init__(self, *functions: Callable[..., list[float | None]]) -> None:
        self.reward_funcs = list(functions)
        self.processing_class, self.accelerator = Tokenizer(), Accelerator()
        self.args = SimpleNamespace(output_dir="out", beta=0.0)
        self.model, self.state = SimpleNamespace(training=True), SimpleNamespace(global_step=0)
        self.num_generations = 2
        self.callbacks: list[Any] = []

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def remove_callback(self, callback: Any) -> None:
        self.callbacks.remove(callback)

    def train(self, steps: int, **batch: list[Any]) -> None:
        usual = {
            "prompts": ["p", "p"],
            "completions": ["bc", "d"],
            "completion_ids": [[3, 4, 1], [5, 1]],
            "answer": ["yes", "no"],
        }
        for step in range(1, steps + 1):
            for function in self.reward_funcs:
                function(trainer_state=self.state, **(batch or usual))
            self.state.global_step = step
            for callback in list(self.callbacks):
                callback.on_log(self.args, self.state, None, logs={"loss": step / 2})
                callback.on_step_end(self.args, self.state, None)


def verl_batch() -> dict[str, np.ndarray]:
    """Return the contents of ``batch.batch`` in verl: prompts padded on the left, responses on the right."""
    return {
        "prompts": np.array([[0, 2, 3], [2, 2, 3]]),
        "responses": np.array([[3, 4, 1, 0], [5, 6, 7, 1]]),
        "response_mask": np.array([[1, 1, 1, 0], [1, 0, 1, 1]]),
        "old_log_probs": np.array([[-1.0, -2.0, -3.0, 0.0], [-1.0, -1.0, -1.0, -1.0]]),
        "ref_log_prob": np.array([[-1.5, -2.0, -3.0, 0.0], [-1.0, -1.0, -1.0, -2.0]]),
        "token_level_scores": np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.25]]),
        "advantages": np.array([[0.5, 0.5, 0.5, 0.0], [-0.5, 0.0, -0.5, -0.5]]),
    }


class RayPPOTrainer:
    """verl's older trainer, reduced to logging rollouts."""

    def __init__(self) -> None:
        self.tokenizer, self.global_steps, self.dumped = Tokenizer(), 3, 0

    def _log_rollout_data(
        self, batch: Any, reward_extra_infos_dict: dict, timing_raw: dict, rollout_data_dir: str
    ) -> None:
        self.dumped += 1


class PPOTrainerSync:
    """verl's V1 trainer, reduced to logging rollouts."""

    def __init__(self) -> None:
        self.tokenizer, self.global_steps, self.dumped = Tokenizer(), 3, 0

    def _log_rollout_data(self, batch: Any, timing_raw: dict, rollout_data_dir: str) -> None:
        self.dumped += 1


class Mask(np.ndarray):
    """A mask with a tensor's ``bool``."""

    def bool(self) -> np.ndarray:
        return np.asarray(self).astype(np.bool_)


class Array(np.ndarray):
    """An array with a tensor's ``detach`` and ``clone``."""

    def detach(self) -> Array:
        return self

    def clone(self) -> Array:
        return self.copy()

    def cpu(self) -> Array:
        return self


def array(values: Any) -> Array:
    return np.array(values).view(Array)


class RemoteExperienceMaker:
    """OpenRLHF's experience maker: takes values and KL, returns advantages, and drops the KL."""

    def __init__(self) -> None:
        kl = SimpleNamespace(estimator="k1", use_loss=False)
        self.args = SimpleNamespace(
            rollout=SimpleNamespace(n_samples_per_prompt=2), algo=SimpleNamespace(kl=kl)
        )
        self.tokenizer, self.initial_model_group = Tokenizer(), object()

    def compute_advantages_and_returns(self, experiences: list[Any]) -> list[Any]:
        for experience in experiences:
            experience.advantages = experience.returns = experience.values * 2
            experience.kl = None
        return experiences


def experience() -> SimpleNamespace:
    """Return two samples of a prompt; the mask covers all tokens of the sequence except the first."""
    return SimpleNamespace(
        sequences=array([[2, 3, 4, 1], [2, 5, 1, 0]]),
        action_mask=np.array([[0, 1, 1], [1, 1, 0]]).view(Mask),
        action_log_probs=array([[0.0, -1.0, -2.0], [-3.0, -4.0, 0.0]]),
        base_action_log_probs=None,
        rollout_log_probs=None,
        kl=array([[0.0, 0.5, 0.0], [0.0, -0.5, 0.0]]),
        values=array([[0.0, 1.0, 2.0], [3.0, 4.0, 0.0]]),
        rewards=array([1.0, 0.0]),
        truncated=array([False, True]),
        index=[0, 1],
        prompts=["a", "a"],
        labels=["yes", "yes"],
    )
