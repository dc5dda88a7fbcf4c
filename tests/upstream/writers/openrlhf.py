"""OpenRLHF's maker of experiences, with rlpanel's hook."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.upstream.sources import load, load_class
from tests.upstream.writers.letters import TOKENS, padded


def experiences(folder: Path) -> None:
    """Record two batches of GRPO with a k1 KL and an environment's tokens; the second one again, resumed."""
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
    for first, batches in ((1, 2), (2, 1)):
        hook = record_experiences(maker, folder, first_step=first)
        for _ in range(batches):
            maker.compute_advantages_and_returns([experience(**_batch())])
        hook.close()


def _batch() -> dict[str, Any]:
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
