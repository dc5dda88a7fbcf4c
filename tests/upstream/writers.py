"""Frameworks' own writers on small made-up batches: ``python -m tests.upstream.writers NAME FOLDER``.

Runs with the Python of the training environment, which has torch.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import os
import sys
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.upstream.sources import class_with, load, load_class


class Letters:
    """A tokenizer with one token per character."""

    pad_token_id, eos_token_id = 0, 1

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


def verl_hook(folder: Path) -> None:
    """Record a step of verl's V1 trainer, beside its own dump."""
    from tests.upstream.verl_trainer import train_one_step

    train_one_step(folder, TOKENS, _Now())


def verl_metrics(folder: Path) -> None:
    """Write the rows of three steps of PPO, and the numbers that verl computes from their padded tensors."""
    metrics = load(
        "verl/trainer/ppo/metric_utils.py", "_compute_response_info", "compute_data_metrics", torch=torch,
        logger=logging.getLogger(),
    )  # fmt: skip
    random = np.random.default_rng(3)
    for step in (1, 2, 3):
        rows = [_verl_row(step, random) for _ in range(8)]
        batch = SimpleNamespace(batch=_verl_tensors(rows), non_tensor_batch={})
        for name, entries in (
            ("rollout_data_rank_0.jsonl", rows),
            ("scalars.jsonl", [{"step": step, **metrics.compute_data_metrics(batch)}]),
        ):
            with (folder / name).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)


def _verl_row(step: int, random: np.random.Generator) -> dict[str, Any]:
    """Return a row of 2 to 12 tokens; a tool wrote some tokens, but not the last one."""
    length = int(random.integers(2, 13))
    mask = [*(random.random(length - 1) < 0.7), True]
    names = ("logprobs", "values", "returns", "advantages")
    arrays = {name: (-random.random(length)).tolist() for name in names}
    texts = {"prompt": "2 + 2?", "response": "4" * length}
    return {"step": step, **texts, "reward": random.normal(), "loss_mask": list(map(int, mask)), **arrays}


def _verl_tensors(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
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


# -- ms-swift ----------------------------------------------------------------------------------------


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


def swift(folder: Path) -> None:
    """Log two steps of the GRPO trainer, then once more at the end of training, as its base class does."""
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
        _fill(trainer._logs, step)
        trainer.state.global_step = step
        trainer.log({"loss": 0.1})
    trainer.log({"train_runtime": 1.0})


def _fill(logs: Any, step: int) -> None:
    logs["prompt"].extend(["2 + 2?"] * 4)
    logs["completion"].extend([f"4 in step {step}", "five", "five", "six"])
    logs["advantages"].extend([1.5, -0.5, -0.5, -0.5])
    logs["rewards"]["Format"].extend([1.0, 0.0, 0.0, 0.0])


def swift_megatron(folder: Path) -> None:
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
        _fill(trainer._logs, step)
        trainer._step = step
        trainer._flush_log_completions()


def swift_ray(folder: Path) -> None:
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


# -- tinker-cookbook ---------------------------------------------------------------------------------


def tinker(folder: Path) -> None:
    """Write the rollout summaries of two iterations: two groups of two trajectories of two steps."""
    names = load(
        "tinker_cookbook/rl/rollout_logging.py", "serialize_rollout_summaries",
        "write_rollout_summaries_jsonl", "_json_safe", safezip=partial(zip, strict=True), Path=Path,
        json=json, logger=None, deprecated=lambda **_: lambda function: function,
    )  # fmt: skip

    def step(length: int, reward: float, done: bool) -> Any:
        tokens = SimpleNamespace(tokens=list(range(length)))
        return SimpleNamespace(
            ob=SimpleNamespace(length=9), ac=tokens, reward=reward, episode_done=done, metrics={"calls": 1.0},
            logs={"action": "add(2, 2)"},
        )  # fmt: skip

    def group(first: float) -> Any:
        turns = [step(3, first, False), step(4, 0.0, True)]
        trajectory = SimpleNamespace(transitions=turns, final_ob=SimpleNamespace(length=20))
        return SimpleNamespace(
            trajectories_G=[trajectory, trajectory], final_rewards_G=[1.0, 0.0],
            metrics_G=[{"ok": 1.0}, {"ok": 0.0}], get_total_rewards=lambda: [1.0 + first, first],
        )  # fmt: skip

    for iteration in (0, 1):
        names.write_rollout_summaries_jsonl(
            folder / f"iteration_{iteration:06d}" / "train_rollout_summaries.jsonl", split="train",
            iteration=iteration, trajectory_groups_P=[group(0.25), group(0.5)],
            taglist_P=[["math"], ["code"]], sampling_client_steps_P=[iteration, iteration],
        )  # fmt: skip


# -- OpenRLHF ----------------------------------------------------------------------------------------


def openrlhf(folder: Path) -> None:
    """Record two batches of GRPO with a k1 KL and an environment's tokens in a response."""
    from rlpanel.recording.openrlhf import record_experiences

    file = "openrlhf/trainer/ppo_utils/experience.py"
    tensor_field = load(file, "tensor_field", field=dataclasses.field).tensor_field
    names = {"dataclass": dataclasses.dataclass, "field": dataclasses.field, "fields": dataclasses.fields}
    experience = load(file, "Experience", torch=torch, tensor_field=tensor_field, **names).Experience
    reward = load("openrlhf/models/utils.py", "compute_reward", torch=torch).compute_reward
    kind = load_class(
        "openrlhf/trainer/ppo_utils/experience_maker.py", "RemoteExperienceMaker",
        "compute_advantages_and_returns", "get_cumulative_returns", torch=torch, itertools=itertools,
        compute_reward=reward, apply_length_penalties=lambda *_: None,
    )  # fmt: skip
    maker = kind()
    algo = SimpleNamespace(
        kl=SimpleNamespace(estimator="k1"),
        advantage=SimpleNamespace(estimator="group_norm", gamma=1.0, no_std_norm=False),
    )
    maker.args = SimpleNamespace(
        algo=algo, rollout=SimpleNamespace(n_samples_per_prompt=2), reward=SimpleNamespace(clip_range=None)
    )
    maker.strategy, maker.kl_ctl = SimpleNamespace(args=maker.args), SimpleNamespace(value=0.1)
    maker.advantage_estimator, maker.initial_model_group, maker.tokenizer = "group_norm", object(), TOKENS
    hook = record_experiences(maker, folder)
    for _ in range(2):
        maker.compute_advantages_and_returns([experience(**_openrlhf_batch())])
    hook.close()


def _openrlhf_batch() -> dict[str, Any]:
    """Return two samples of a prompt: "4" with a tool's answer "ok" before its end, and "five"."""
    prompt, responses = "2 + 2?", ["4ok!", "five"]
    logprobs = torch.tensor([[-0.1, 0.0, 0.0, -0.2], [-0.3, -0.4, -0.5, -0.6]])
    return {
        "sequences": padded([prompt + response for response in responses]),
        "action_mask": torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1]]).bool(),
        "action_log_probs": logprobs,
        "rollout_log_probs": logprobs - 0.01,
        "kl": torch.full((2, 4), 0.5),
        "rewards": torch.tensor([1.0, 0.0]),
        "truncated": torch.tensor([0, 1]),
        "index": [0, 1],
        "prompts": [prompt] * 2,
        "labels": ["4"] * 2,
        "images": [["a/b.png"], None],
    }


def main() -> None:
    """Run the writer that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    writers = (
        verl_v1,
        verl_hook,
        verl_metrics,
        areal,
        skyrl,
        swift,
        swift_megatron,
        swift_ray,
        tinker,
        openrlhf,
    )
    {writer.__name__: writer for writer in writers}[name](folder)


if __name__ == "__main__":
    main()
