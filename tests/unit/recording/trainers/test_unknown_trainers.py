"""Trainers that cannot be recorded, or in part: no script ends, and a warning says what is missing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from tests.unit.recording.trainers import standins


def rows(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "rollout_data_rank_0.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


class NoAccelerator(standins.TrainerOfAnotherVersion):
    """A trainer of another package."""

    def __init__(self) -> None:
        super().__init__()
        del self.accelerator


class NoCallbacks(standins.TrainerOfAnotherVersion):
    """A trainer that takes no callbacks."""

    add_callback = None  # type: ignore[assignment]


class Broken(standins.TrainerOfAnotherVersion):
    """A trainer whose reward functions cannot be listed."""

    def __init__(self) -> None:
        super().__init__()
        del self.functions

    @property
    def reward_funcs(self) -> list[Any]:
        raise RuntimeError("scored elsewhere")

    @reward_funcs.setter
    def reward_funcs(self, functions: list[Any]) -> None:
        self.functions = functions

    def train(self, steps: int) -> None:
        for step in range(1, steps + 1):
            self.state.global_step = step
            for callback in list(self.callbacks):
                callback.on_log(self.args, self.state, None, logs={"loss": step / 2})
                callback.on_step_end(self.args, self.state, None)


@pytest.mark.parametrize("trainer", [NoAccelerator(), NoCallbacks(), SimpleNamespace(), object()])
def test_a_trainer_of_which_nothing_can_be_recorded_is_left_alone(
    trainer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = dict(vars(trainer)) if hasattr(trainer, "__dict__") else {}
    with rlpanel.record(trainer, tmp_path) as recording:
        assert recording.writer is None
    assert (vars(trainer) if before else {}) == before
    [message] = caplog.messages
    assert message.startswith(f"rlpanel: nothing of this {type(trainer).__name__} is recorded: ")


def test_a_folder_that_cannot_be_written_does_not_end_the_script(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    trainer = standins.TrainerOfAnotherVersion()
    with rlpanel.record(trainer, tmp_path / "file" / "run"):
        trainer.train(steps=1)
    [message] = caplog.messages
    assert message.startswith(
        "rlpanel: nothing of this TrainerOfAnotherVersion is recorded: NotADirectoryError"
    )


def test_a_wrong_setting_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(SettingError):
        rlpanel.record(standins.TrainerOfAnotherVersion(), tmp_path, digit=3)


def test_if_the_rollouts_cannot_be_recorded_the_scalars_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = Broken()
    with caplog.at_level(logging.WARNING), rlpanel.record(trainer, tmp_path):
        trainer.train(steps=6)
    assert caplog.messages == [
        "rlpanel: no rollouts of this Broken are recorded, only its scalars: RuntimeError: scored elsewhere"
    ]
    lines = (tmp_path / "scalars.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert trainer.callbacks == []


def test_the_board_says_what_was_not_recorded(tmp_path: Path) -> None:
    trainer = standins.TrainerOfAnotherVersion(lambda completions, **_: [1.0, 0.0])
    with rlpanel.record(trainer, tmp_path):
        trainer.train(steps=1)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        [problem] = run.snapshot.problems
    assert problem.startswith(
        "run.json: not recorded: this TrainerOfAnotherVersion has no _generate_and_score"
    )


def test_prompts_and_responses_are_in_a_row_once(tmp_path: Path) -> None:
    trainer = standins.TrainerOfAnotherVersion(lambda completions, **_: [1.0, 0.0])
    with rlpanel.record(trainer, tmp_path):
        trainer.train(steps=1)
    assert not {"prompts", "completions"} & rows(tmp_path)[0].keys()


def test_compiled_trainers_are_known_by_the_end_of_their_names(tmp_path: Path) -> None:
    names = {
        "UnslothGRPOTrainer": "grpo", "_UnslothRLOOTrainer": "rloo", "MyGRPOTrainer": "grpo",
        "UnslothPPOTrainer": "ppo", "CPPOTrainer": None, "SDPOTrainer": None,
    }  # fmt: skip
    found = {}
    for name in names:
        trainer = type(name, (standins.TrainerOfAnotherVersion,), {})()
        rlpanel.record(trainer, tmp_path / name).close()
        found[name] = json.loads((tmp_path / name / "run.json").read_text()).get("algo")
    assert found == names


# -- a trainer that takes its samples from a queue ---------------------------------------------------


class AsyncGRPOTrainer:
    """TRL's trainer of version 1.16, reduced to the way of its samples: queue, data set, collator, loss."""

    def __init__(self, samples: list[SimpleNamespace]) -> None:
        self.rollout_queue, self.model_version = iter(samples), 0
        self.processing_class, self.eos_token_ids = standins.Tokenizer(), [1]
        self.accelerator = standins.Accelerator()
        self.args = SimpleNamespace(output_dir="out", max_staleness=1, gradient_accumulation_steps=1)
        self.state, self.callbacks = SimpleNamespace(global_step=0), list[Any]()
        self.get = SimpleNamespace(get=lambda timeout: next(self.rollout_queue))

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def remove_callback(self, callback: Any) -> None:
        self.callbacks.remove(callback)

    def get_train_dataloader(self) -> SimpleNamespace:
        self._rollout_dataset = SimpleNamespace(queue=self.get)
        return SimpleNamespace(collate_fn=SimpleNamespace(torch_call=lambda examples: {"rows": examples}))

    def drawn(self) -> Iterator[dict[str, Any]]:
        while True:
            sample = self._rollout_dataset.queue.get(timeout=1)
            if self.model_version - sample.model_version <= self.args.max_staleness:
                yield {"input_ids": sample.input_ids}

    def compute_loss(self, model: Any, inputs: Any) -> float:
        return 1.0

    def train(self, steps: int) -> None:
        loader, examples = self.get_train_dataloader(), self.drawn()
        for step in range(1, steps + 1):
            row = SimpleNamespace(samples=[next(examples), next(examples)])
            batch = loader.collate_fn.torch_call([[row]])
            self.compute_loss(SimpleNamespace(), batch)
            self.state.global_step = self.model_version = step


def queued(group: int, version: int) -> SimpleNamespace:
    return SimpleNamespace(
        prompt="ab",
        completion="cd",
        input_ids=np.array([2, 3, 4, 5, 1]),
        completion_mask=np.array([0, 0, 1, 1, 1]),
        old_log_probs=np.array([0.0, 0.0, -1.0, -2.0, -0.5]),
        advantage=0.5,
        model_version=version,
        group_id=group,
        metrics={"reward": 1.5, "reward_std": 0.5, "rewards/good": 1.5, "tools/call_frequency": 2.0},
        enqueued_at=None,
    )


def test_a_trainer_with_a_queue_is_recorded_without_reward_functions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = AsyncGRPOTrainer(
        [queued(group, version) for group, version in ((0, 0), (0, 0), (1, -1), (2, 1), (2, 0))]
    )
    with caplog.at_level(logging.WARNING), rlpanel.record(trainer, tmp_path):
        trainer.train(steps=2)
    found = rows(tmp_path)
    names = ("step", "group", "policy_version", "trainer_version", "split")
    assert [tuple(row.get(name) for name in names) for row in found] == [
        (1, "0", 0, 0, None),
        (1, "0", 0, 0, None),
        (2, "1", -1, 1, "discarded"),
        (2, "2", 1, 1, None),
        (2, "2", 0, 1, None),
    ]
    assert found[2]["status_reason"] == "2 versions old, max_staleness is 1"
    names = ("prompt", "response", "response_tokens", "rollout_logprobs", "loss_mask", "truncated")
    assert [found[0][name] for name in names] == [
        *("ab", "cd", ["c", "d", "$"], [-1.0, -2.0, -0.5], [1, 1, 1], False)
    ]
    assert (found[0]["reward"], found[0]["rewards"], found[0]["advantage"]) == (1.5, {"good": 1.5}, 0.5)
    assert found[0]["tools/call_frequency"] == 2.0
    assert [message for message in caplog.messages if "rollouts" in message] == []
    assert "compute_loss" not in vars(trainer)
