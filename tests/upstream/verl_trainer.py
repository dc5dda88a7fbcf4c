"""A step of verl's V1 trainer with rlpanel's hook: verl's own code between the engine and the log.

The model, the reward and TransferQueue are stand-ins, for they need GPUs or Ray.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import math
import os
import sys
import uuid
from collections import defaultdict
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from rlpanel.recording.verl import recording
from tests.upstream.queue_in_memory import Batch, Fields, Queue
from tests.upstream.sources import load, load_class

#: Outputs of the agent loop by prompt and session: prompt, response, mask, the engine's logprobs, and the
#: session's reward. Tokens with a logprob of -5 are rejected, since the trainer's is near 0.
SESSIONS = {
    ("a_1", 0): (
        [
            ("2 + 2?", "add 2 2", [1] * 7, [-0.25] * 7),
            ("2 + 2?add 2 2=4", "4 🙂", [1] * 3, [-0.25, -0.25, -5.0]),
        ],
        1.0,
    ),
    ("a_1", 1): ([("2 + 2?", "f()ok", [1, 1, 1, 0, 0], [-0.25] * 3 + [0.0] * 2)], 0.0),
    ("b_2", 0): ([("月?", "f()ok!", [1, 1, 1, 0, 0, 1], [-0.25] * 3 + [0.0] * 2 + [-0.25])], 0.5),
    ("b_2", 1): ([("月?", "sun", [1] * 3, [-5.0] * 3)], 0.5),
}


class Config(dict[str, Any]):
    """Options as attributes, as OmegaConf gives them."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Output:
    """What verl's agent loop returns, without pydantic."""

    reward_score: float | None = None

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def model_dump(self, *, exclude_unset: bool) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)


class Proto:
    """verl's ``DataProto``, reduced to columns."""

    def __init__(self, batch: Fields, non_tensor_batch: dict[str, Any] | None = None) -> None:
        self.batch, self.non_tensor_batch = batch, non_tensor_batch or {}

    def __len__(self) -> int:
        return len(self.batch["response_mask"])

    def select_idxs(self, places: list[int]) -> Proto:
        batch = Fields({name: column[places] for name, column in self.batch.items()})
        return Proto(batch, {name: column[places] for name, column in self.non_tensor_batch.items()})


def train_one_step(folder: Path, tokenizer: Any, executor: Any) -> None:
    """Generate, train on and log a batch; verl pads its five rows to eight."""
    queue = Queue()
    sys.modules["transfer_queue"] = queue  # type: ignore[assignment]  # the hook imports the module
    _generate(queue)
    trainer = recording(_trainer(queue), folder / "recorded")()
    trainer.tokenizer, trainer._dump_executor, trainer._dump_futures = tokenizer, executor, []
    batch = trainer.step({}, {})
    assert sum(tag.get("is_padding", False) for tag in batch.tags) == 3
    trainer._log_rollout_data(batch, {}, str(folder / "dump"))
    trainer._rlpanel_hook.writer.close()


def _generate(queue: Queue) -> None:
    """Put the sessions' outputs into the queue, as verl's worker of agent loops does."""
    kind = load_class(
        "verl/experimental/agent_loop/agent_loop.py", "AgentLoopOutput", "as_dict", base=Output, torch=torch
    )
    worker = load_class(
        "verl/trainer/ppo/v1/agent_loop_tq.py", "AgentLoopWorkerTQ", "_agent_loop_postprocess", torch=torch,
        tq=queue, list_of_dict_to_tensordict=_to_fields(),
    )()  # fmt: skip
    worker._compute_multi_modal_inputs = lambda output, ids: {}
    worker._compute_position_ids = lambda ids, mask, inputs: torch.cumsum(mask, dim=-1) - 1
    worker._compute_teacher_logprobs = _nothing
    for (uid, session), (turns, reward) in SESSIONS.items():
        outputs = [
            kind(
                prompt_ids=list(map(ord, prompt)), response_ids=list(map(ord, response)), response_mask=mask,
                response_logprobs=logprobs, num_turns=2,
                extra_fields={"min_global_steps": 1, "max_global_steps": 2 + session},
            )
            for prompt, response, mask, logprobs in turns
        ]  # fmt: skip
        worker._compute_score = _scorer(reward)
        given = {"uid": uid, "session_id": session, "global_steps": 3, "reward_model": {"ground_truth": "4"}}
        asyncio.run(worker._agent_loop_postprocess(outputs, False, **given))


def _scorer(reward: float) -> Any:
    async def score(outputs: list[Any], **_: Any) -> None:
        outputs[-1].reward_score = reward
        outputs[-1].extra_fields["reward_extra_info"] = {}

    return score


async def _nothing(*_: Any, **__: Any) -> None:
    pass


def _to_fields() -> Any:
    return load(
        "verl/utils/tensordict_utils.py", "list_of_dict_to_tensordict", torch=torch, TensorDict=Fields,
        NonTensorStack=lambda *values: list(values), tensordict=SimpleNamespace(__version__="0.10"),
        parse_version=float,
    ).list_of_dict_to_tensordict  # fmt: skip


def _trainer(queue: Queue) -> type:
    """Return verl's trainer with a model whose logprobs are minus a hundredth of a token's place."""
    padding = load("verl/workers/utils/padding.py", "response_from_nested", "response_to_nested", torch=torch)
    kind = load_class(
        "verl/trainer/ppo/v1/trainer_base.py", "PPOTrainer", "step", "_step_once", "_balance_batch",
        "_get_required_batch_multiple", "_compute_old_log_prob", "_compute_ref_log_prob",
        "_compute_advantage", "_log_rollout_data", "_dump_generations",
        tq=queue, KVBatchMeta=Batch, DataProto=Proto, TensorDict=Fields, torch=torch, np=np, math=math,
        marked_timer=lambda *_, **__: nullcontext(), agg_loss=lambda **_: torch.tensor(0.0),
        calculate_debug_metrics=lambda _: {}, calculate_workload=lambda lengths: lengths,
        get_seqlen_balanced_partitions=lambda lengths, **_: [list(range(len(lengths)))[::-1]],
        log_seqlen_unbalance=lambda **_: {}, upsample_batch_to_divisible_size=_upsample(queue),
        response_from_nested=padding.response_from_nested, response_to_nested=padding.response_to_nested,
        compute_advantage_for_multi_trajectories=_advantages(),
        compute_rollout_correction_and_add_to_batch=_rejection(),
        MetricsAggregator=lambda: SimpleNamespace(
            add_step_metrics=lambda *_, **__: None, get_aggregated_metrics=dict
        ),
    )  # fmt: skip
    kind._write_generations = staticmethod(
        load(
            "verl/trainer/ppo/v1/trainer_base.py", "PPOTrainer._write_generations", os=os, json=json, np=np
        )._write_generations
    )
    kind.config, kind.global_steps = _config(), 3
    kind.parameter_sync_step, kind.use_critic, kind.use_reference_policy = 1, False, True
    kind.ref_in_actor, kind.reward_loop_manager = False, SimpleNamespace(reward_loop_worker_handles=[])
    kind.prepare_step = kind.on_sample_begin = kind.on_sample_end = lambda _: {}
    kind.replay_buffer = SimpleNamespace(sample=lambda **_: (queue.batch(list(queue.samples)), {}))

    def compute(scale: float) -> Any:
        def run(batch: Batch) -> Batch:
            # A model gives a token's logprob at the place before it.
            queue.fill(batch, "log_probs", lambda place: -scale * (place + 1))
            queue.fill(batch, "entropy", lambda place: 0.5)
            return batch

        return run

    kind.actor_rollout_wg = SimpleNamespace(
        _dispatch_info={"actor": [0, 1, 2, 3]}, compute_log_prob=compute(0.01)
    )
    kind.ref_policy_wg = SimpleNamespace(compute_ref_log_prob=compute(0.02))
    return kind


def _config() -> Config:
    rollout = Config(temperature=1.0, calculate_log_probs=True, n=2)
    actor = Config(loss_agg_mode="token-mean", loss_scale_factor=None, ppo_mini_batch_size=4)
    algorithm = Config(adv_estimator="grpo", gamma=1.0, lam=1.0, use_kl_in_reward=False)
    algorithm["rollout_correction"] = {"rollout_rs": "token_k2", "rollout_rs_threshold": "1.0"}
    return Config(
        actor_rollout_ref=Config(rollout=rollout, actor=actor), algorithm=algorithm,
        trainer=Config(critic_warmup=10), data=Config(train_batch_size=2),
    )  # fmt: skip


def _upsample(queue: Queue) -> Any:
    """Return verl's function that fills a batch with rows without reward."""
    position_ids = load("verl/utils/model.py", "compute_position_id_with_mask", torch=torch)
    return load(
        "verl/trainer/ppo/padding_utils.py", "build_padding_position_ids", "build_padding_routed_experts",
        "construct_minimal_padding_template", "upsample_batch_to_divisible_size", torch=torch, copy=copy,
        uuid=uuid, tq=queue, KVBatchMeta=Batch, logger=logging.getLogger(), SYNTHETIC_PADDING_SEQ_LEN=8,
        compute_position_id_with_mask=position_ids.compute_position_id_with_mask,
        list_of_dict_to_tensordict=_to_fields(),
    ).upsample_batch_to_divisible_size  # fmt: skip


def _rejection() -> Any:
    """Return verl's function that masks tokens whose two logprobs differ too much."""
    means = load("verl/utils/torch_functional.py", "masked_sum", "masked_mean", torch=torch)
    return load(
        "verl/trainer/ppo/rollout_corr_helper.py", "_parse_rollout_rs_thresholds",
        "compute_rollout_rejection_mask", "compute_rollout_correction_and_rejection_mask",
        "compute_rollout_correction_and_add_to_batch", torch=torch, verl_F=means, SAFETY_BOUND=20.0,
        SUPPORTED_ROLLOUT_RS_OPTIONS={"token_k2"}, TOKEN_LEVEL_ROLLOUT_RS_OPTIONS={"token_k2"},
        compute_rs_metrics=lambda **_: {}, compute_offpolicy_metrics=lambda **_: {},
    ).compute_rollout_correction_and_add_to_batch  # fmt: skip


def _advantages() -> Any:
    """Return verl's function of GRPO's advantages, from the last output of each session."""
    algorithms = load(
        "verl/trainer/ppo/core_algos.py", "AdvantageEstimator", "compute_grpo_outcome_advantage",
        torch=torch, np=np, defaultdict=defaultdict, Enum=Enum,
        register_adv_est=lambda _: lambda function: function,
    )  # fmt: skip
    single = load(
        "verl/trainer/ppo/ray_trainer.py", "compute_advantage", core_algos=algorithms,
        AdvantageEstimator=algorithms.AdvantageEstimator,
    )  # fmt: skip
    return load(
        "verl/trainer/ppo/v1/utils.py", "compute_advantage_for_multi_trajectories", torch=torch,
        core_algos=algorithms, compute_advantage=single.compute_advantage,
    ).compute_advantage_for_multi_trajectories  # fmt: skip
