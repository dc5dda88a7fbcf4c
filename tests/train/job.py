"""A small training run in its own process: ``python -m tests.train.job ALGO FOLDER '{"key": …}'``.

Prints one line of JSON: losses, and seconds and CPU seconds per step. The tests run it with the training
environment's Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import rlpanel
from tests.train import tiny

SHARED = {
    "report_to": "none",
    "use_cpu": True,
    "logging_steps": 1,
    "save_strategy": "no",
    "disable_tqdm": True,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "seed": 5,
}


def grouped(algo: str, folder: Path, **options: Any) -> Any:
    """Return a GRPO or RLOO trainer, or one of `tests.train.other_trainers` that is made of GRPO."""
    import trl

    from tests.train import other_trainers

    kind, config = (trl.RLOOTrainer, trl.RLOOConfig) if algo == "rloo" else (trl.GRPOTrainer, trl.GRPOConfig)
    kind = {"unsloth": other_trainers.compiled, "selective": other_trainers.selective}.get(
        algo, lambda same: same
    )(kind)
    defaults = {
        "num_generations": 4,
        "max_completion_length": 12,
        "gradient_accumulation_steps": 2,
        "beta": 0.1,
        "max_steps": 4,
        "reward_weights": [1.0, 0.5],
    }
    tokens = tiny.tokenizer()
    defaults["generation_kwargs"] = {"suppress_tokens": tiny.few(tokens)}
    # The reference model is loaded from the same place as the policy.
    home = folder / f"model-{os.environ.get('RANK', '0')}"
    tiny.policy(tokens).save_pretrained(home)
    made = kind(
        model=str(home),
        processing_class=tokens,
        reward_funcs=[tiny.score_length, tiny.score_letters],
        args=config(output_dir=str(folder), **(SHARED | defaults | options)),
        train_dataset=tiny.task(),
        eval_dataset=tiny.task(4) if options.get("eval_strategy") else None,
    )
    if algo == "vllm":
        made.use_vllm = made.args.use_vllm = True
        made.vllm_generation, made._last_loaded_step = other_trainers.Engine(tokens), -1
    return made


def elsewhere(folder: Path, **options: Any) -> Any:
    """Return a trainer without rollouts that rlpanel cannot look into."""
    from transformers import TrainingArguments

    from tests.train import other_trainers

    tokens = tiny.tokenizer()
    ids = [tokens(text)["input_ids"][:6] for text in tiny.PROMPTS]
    return other_trainers.Elsewhere(
        model=tiny.policy(tokens),
        args=TrainingArguments(output_dir=str(folder), **(SHARED | {"max_steps": 4} | options)),
        train_dataset=[{"input_ids": each, "labels": each} for each in ids if len(each) == 6],
    )


def tools(folder: Path, **options: Any) -> Any:
    """Return a GRPO trainer whose policy calls a tool."""
    import trl

    tokens = tiny.chat_tokenizer()
    defaults = {
        "num_generations": 4,
        "max_completion_length": 200,
        "gradient_accumulation_steps": 2,
        "beta": 0.1,
        "max_steps": 2,
        "log_completions": True,
    }
    home = folder / "model"
    tiny.policy(tokens).save_pretrained(home)
    return tiny.scripted(trl.GRPOTrainer)(
        model=str(home),
        processing_class=tokens,
        reward_funcs=[tiny.score_calls],
        args=trl.GRPOConfig(output_dir=str(folder), **(SHARED | defaults | options)),
        train_dataset=tiny.sums(),
        tools=[tiny.add],
    )


def online_dpo(folder: Path, **options: Any) -> Any:
    """Return an online DPO trainer, which is recorded through its reward functions."""
    from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

    tokens = tiny.tokenizer()
    defaults = {"max_new_tokens": 12, "max_length": 64, "beta": 0.1, "max_steps": 2}
    return OnlineDPOTrainer(
        model=tiny.policy(tokens),
        ref_model=tiny.policy(tokens),
        processing_class=tokens,
        reward_funcs=[tiny.score_length, tiny.score_letters],
        args=OnlineDPOConfig(output_dir=str(folder), **(SHARED | defaults | options)),
        train_dataset=tiny.task(),
    )


def from_queue(folder: Path, **options: Any) -> Any:
    """Return an AsyncGRPO trainer whose rollouts come from `tests.train.async_rollouts`."""
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

    from tests.train import async_rollouts

    tokens = tiny.tokenizer()
    home = folder / "model"
    tiny.policy(tokens).save_pretrained(home)
    defaults = {"max_steps": 4, "gradient_accumulation_steps": 2, "token_budget": -1, "num_generations": 4}
    args = AsyncGRPOConfig(output_dir=str(folder), **(SHARED | defaults | options))
    rewards = [tiny.score_length, tiny.score_letters]
    async_rollouts.without_gpu()
    return AsyncGRPOTrainer(
        model=str(home),
        processing_class=tokens,
        reward_funcs=rewards,
        args=args,
        train_dataset=tiny.task(),
        rollout_worker=async_rollouts.Worker(tokens, list(tiny.PROMPTS), rewards, args.max_staleness),
        weight_transfer=async_rollouts.NoTransfer(),
    )


def ppo(folder: Path, **options: Any) -> Any:
    """Return a PPO trainer."""
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    tokens = tiny.tokenizer()
    defaults = {
        "total_episodes": 32,
        "num_mini_batches": 2,
        "num_ppo_epochs": 2,
        "gradient_accumulation_steps": 2,
        "response_length": 12,
        "stop_token": "eos",
        "kl_coef": 0.1,
        "num_sample_generations": 0,
    }
    data = tiny.task().map(lambda row: {"input_ids": tokens(row["prompt"])["input_ids"]})
    return PPOTrainer(
        args=PPOConfig(output_dir=str(folder), **(SHARED | defaults | options)),
        processing_class=tokens,
        model=tiny.policy_that_ends(tokens),
        ref_model=tiny.policy_that_ends(tokens),
        reward_model=tiny.scorer(tokens, 1),
        value_model=tiny.scorer(tokens, 2),
        train_dataset=data.select_columns(["input_ids"]),
        eval_dataset=data.select_columns(["input_ids"]).select(range(4)),
    )


def main() -> None:
    """Train with the options of the command line."""
    algo, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    recorded, resume = options.pop("record", True), options.pop("resume", None)
    own = {"ppo": ppo, "tools": tools, "online_dpo": online_dpo, "async": from_queue, "elsewhere": elsewhere}
    made = own.get(algo, partial(grouped, algo))
    trainer = made(folder / "output", **options)
    before = set(vars(trainer))
    began, used = time.perf_counter(), time.process_time()
    with rlpanel.record(trainer, folder / "run") if recorded else nullcontext():
        trainer.train(**({"resume_from_checkpoint": resume} if resume else {}))
    losses = [
        entry.get("loss", entry.get("loss/policy_avg"))
        for entry in trainer.state.log_history
        if "train_runtime" not in entry and "eval_loss" not in entry
    ]
    left = sorted(
        name for name in set(vars(trainer)) - before if "rlpanel" in name or name.startswith("_calc")
    )
    steps = max(1, trainer.state.global_step)
    took = {
        "seconds": (time.perf_counter() - began) / steps,
        "cpu_seconds": (time.process_time() - used) / steps,
    }
    print(json.dumps({"losses": losses, "left": left} | took))


if __name__ == "__main__":
    main()
