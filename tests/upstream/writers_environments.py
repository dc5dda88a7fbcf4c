"""Writers that need no trainer's batch: ``python -m tests.upstream.writers_environments NAME FOLDER``.

Runs with the Python of the training environment, which has pydantic and pyarrow. The classes that a writer is
given stand for the frameworks' own, which need more packages.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pydantic

from tests.upstream.sources import load, load_class

# -- OpenPipe ART ------------------------------------------------------------------------------------


class Choice(pydantic.BaseModel):
    """A choice of the model, as OpenAI's package has it."""

    finish_reason: str
    index: int
    message: dict[str, Any]
    logprobs: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump()


class History(pydantic.BaseModel):
    """A further conversation of a trajectory."""

    messages_and_choices: list[Any]


class Trajectory(pydantic.BaseModel):
    """A trajectory; `write_trajectory_groups_parquet` dumps it field by field."""

    messages_and_choices: list[Any]
    additional_histories: list[History] = []
    exchanges: dict[str, Any] = {}
    reward: float = 0.0
    initial_policy_version: int | None = None
    final_policy_version: int | None = None
    metrics: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    logs: list[str] = []


class Group(pydantic.BaseModel):
    """A group of trajectories and of the exceptions of those that failed."""

    trajectories: list[Trajectory]
    exceptions: list[dict[str, str]] = []
    metadata: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    logs: list[str] = []


def choice(text: str | None, *, calls: Any = None, reason: str = "stop") -> Choice:
    """Return an answer whose tokens are its letters, called by their ids."""
    tokens = [
        {"token": f"token_id:{ord(letter)}", "logprob": -0.1 * (at + 1)}
        for at, letter in enumerate(text or "+")
    ]
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    return Choice(finish_reason=reason, index=0, message=message, logprobs={"content": tokens})


def openpipe_art(folder: Path) -> None:
    """Write two steps of a model: sums with a tool, words with a rollout that raised, and an evaluation."""
    for name in ("litellm", "litellm.types", "litellm.types.utils"):  # its choices are another such class
        sys.modules[name] = ModuleType(name)
    sys.modules["litellm.types.utils"].__dict__["Choices"] = History
    file = "art/utils/trajectory_logging.py"
    names = load(
        file, "write_trajectory_groups_parquet", "_schema", "_compact_json", "_trajectory_data",
        "_choice_data", "_history_data", "_legacy_messages", "_flatten_message", Mapping=Mapping, json=json,
        Choice=Choice,
        ART_MOE_ROUTING_METADATA_KEY="art_moe_routing", _FORMAT_VERSION=2,
        _JSON_VALUE=pydantic.TypeAdapter(Any),
    )  # fmt: skip
    logger = load_class(
        "art/model.py", "Model", "_log_metrics", os=os, json=json, datetime=datetime,
    )()  # fmt: skip
    logger.report_metrics = []
    model = folder / ".art" / "sums" / "models" / "small"
    logger._get_output_dir = lambda: str(model)
    logger._qualify_metric_key = lambda key, split: f"{split}/{key}"
    for step in (1, 2):
        for split, groups in (("train", _groups(step)), ("val", _groups(step)[:1])):
            target = model / "trajectories" / split / f"{step:04d}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            names.write_trajectory_groups_parquet(groups, target)
            rewards = [each.reward for group in groups for each in group.trajectories]
            logger._log_metrics({"reward": sum(rewards) / len(rewards)}, split, step)


def _groups(step: int) -> list[Group]:
    question = {"role": "user", "content": "2 + 2?"}
    call = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]
    tool = {"role": "tool", "tool_call_id": "c1", "content": "4"}
    sums = [
        Trajectory(
            messages_and_choices=[question, choice(None, calls=call), tool, choice(text, reason=reason)],
            reward=reward, initial_policy_version=step - 1, final_policy_version=step,
            metrics={"right": reward == 1.0}, metadata={"task": "sum"},
        )
        for text, reward, reason in (("4", 1.0, "stop"), ("five", 0.0, "length"))
    ]  # fmt: skip
    judged = History(messages_and_choices=[{"role": "user", "content": "Judge."}, choice("good")])
    words = Trajectory(
        messages_and_choices=[{"role": "user", "content": "月?"}, choice("moon")], reward=0.5,
        additional_histories=[judged],
    )  # fmt: skip
    error = {"type": "<class 'TimeoutError'>", "message": "no answer", "traceback": ""}
    return [Group(trajectories=sums), Group(trajectories=[words], exceptions=[error])]


# -- atropos -----------------------------------------------------------------------------------------


def atropos(folder: Path) -> None:
    """Append the groups of an environment: with messages, and with tokens alone, which atropos decodes."""
    names = load(
        "atroposlib/envs/base.py", "BaseEnv.handle_send_to_api", logger=logging.getLogger(), warnings=warnings
    )
    with (folder / "sums.jsonl").open("w", encoding="utf-8") as file:

        def write(group: dict[str, Any]) -> None:
            file.write(json.dumps(group) + "\n")
            file.flush()

        config = SimpleNamespace(
            group_size=2,
            ensure_scores_are_not_same=True,
            include_messages=True,
            data_path_to_save_groups="sums",
        )
        env = SimpleNamespace(
            config=config, completion_lengths=[], max_token_len=100, add_rollouts_for_wandb=_nothing,
            jsonl_writer=SimpleNamespace(write=write),
            tokenizer=SimpleNamespace(decode=lambda ids: bytes(ids).decode()),
        )  # fmt: skip
        for group in (
            _group(["4", "five"], [1.0, -1.0], said=True),
            _group(["6", "7"], [1.0, 0.0], said=False),
            _group(["8", "8"], [1.0, 1.0], said=False),
        ):
            asyncio.run(names.handle_send_to_api(env, group, do_send_to_api=False))


async def _nothing(*_: Any) -> None:
    """Log nothing to W&B."""


def _group(answers: list[str], scores: list[float], *, said: bool) -> dict[str, Any]:
    """Return samples of "2+2?", a call, a tool's "=4", and an answer; a token for each letter."""
    asked, called, told = "2+2?", "add", "=4"
    tokens = [list((asked + called + told + answer).encode()) for answer in answers]
    masks = [
        [-100] * len(asked) + list(called.encode()) + [-100] * len(told) + list(answer.encode())
        for answer in answers
    ]
    group: dict[str, Any] = {
        "tokens": tokens,
        "masks": masks,
        "scores": scores,
        "inference_logprobs": [[1.0 if token == -100 else -0.5 for token in mask] for mask in masks],
    }
    if said:
        group["messages"] = [
            [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": called, "reward": None},
                {"role": "tool", "content": told},
                {"role": "assistant", "content": answer, "reward": score},
            ]
            for answer, score in zip(answers, scores, strict=True)
        ]
    return group


# -- LLaMA-Factory -----------------------------------------------------------------------------------


def llamafactory(folder: Path) -> None:
    """Log two steps of training and an evaluation."""
    callback = load_class(
        "llamafactory/train/callbacks.py", "LogCallback", "on_log", "_timing", "_write_log", os=os, json=json,
        time=time, timedelta=timedelta, TRAINER_LOG="trainer_log.jsonl", is_env_enabled=lambda _: False,
    )()  # fmt: skip
    callback.start_time, callback.max_steps, callback.webui_mode = time.time(), 20, False
    callback.thread_pool = SimpleNamespace(submit=lambda function, *given: function(*given))
    arguments = SimpleNamespace(should_save=True, output_dir=str(folder))
    for step, logged in (
        (10, {"loss": 0.5, "learning_rate": 1e-5}),
        (10, {"eval_loss": 0.25}),
        (20, {"loss": 0.4}),
    ):
        state = SimpleNamespace(global_step=step, log_history=[logged], num_input_tokens_seen=100 * step)
        callback.on_log(arguments, state, None)


def main() -> None:
    """Run the writer that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    {writer.__name__: writer for writer in (openpipe_art, atropos, llamafactory)}[name](folder)


if __name__ == "__main__":
    main()
