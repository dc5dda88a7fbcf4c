"""Stand-ins for what AsyncGRPOTrainer needs besides a CPU: a vLLM server's rollouts, a GPU's attention.

The trainer, its queue, its batches, its loss and the scoring of groups are TRL's own. Responses are random.
"""

from __future__ import annotations

import asyncio
import queue
import random
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing

GROUP = 4
#: Each of so many groups is older than the trainer accepts, so that it drops them.
STALE = 5


def attend(
    query: Any,
    key: Any,
    value: Any,
    query_bounds: Any,
    key_bounds: Any,
    *_: int,
    softmax_scale: float,
    **__: Any,
) -> Any:
    """Compute causal attention of segments packed end to end, as FlashAttention 3 does on a GPU."""
    outputs = []
    for at, (first, last) in enumerate(pairwise(query_bounds.tolist())):
        keys = slice(*key_bounds[at : at + 2].tolist())
        size, known = last - first, keys.stop - keys.start
        allowed = torch.ones(size, known, dtype=torch.bool).tril(known - size)
        parts = (part.transpose(0, 1) for part in (query[first:last], key[keys], value[keys]))
        mixed = scaled_dot_product_attention(*parts, attn_mask=allowed, scale=softmax_scale)
        outputs.append(mixed.transpose(0, 1))
    return torch.cat(outputs)


def without_gpu() -> None:
    """Replace the attention kernel of TRL's packed rows, and the look-up of the GPU's speed."""
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=attend)
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None


class NoTransfer:
    """Weight transfer to a server that does not exist."""

    def init_weight_transfer(self) -> None: ...

    def pause(self) -> None: ...

    def send_weights(self, iterator: Any) -> None:
        """Read all weights, as a transfer would."""
        for _ in iterator:
            pass

    def resume(self) -> None: ...

    def destroy(self) -> None: ...


class Worker(queue.Queue):
    """Rollout worker and its queue: samples a group when the trainer wants one, and TRL scores it."""

    def __init__(self, tokens: Any, prompts: list[Any], reward_funcs: list[Any], max_staleness: int) -> None:
        super().__init__()
        self.rollout_buffer, self.metrics_queue = self, queue.Queue()
        self._tokens, self._prompts, self._most = tokens, prompts, max_staleness
        self._version = self._groups = 0
        self._random = random.Random(3)
        self._loop = async_rollout_worker._AsyncRolloutLoop.__new__(async_rollout_worker._AsyncRolloutLoop)
        self._loop.reward_funcs = reward_funcs
        self._loop.reward_func_names = [function.__name__ for function in reward_funcs]
        self._loop._env_reward_types = []

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def update_model_version(self, model_version: int) -> None:
        """Sample with this version from now on."""
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None: ...

    def get(self, *_: Any, **__: Any) -> Any:
        """Return the next scored sample."""
        if self.empty():
            for sample in asyncio.run(self._loop._score_group(self._group())):
                sample.enqueued_at = time.time() - 0.5
                self.put(sample)
        return super().get(block=False)

    def _group(self) -> Any:
        number, self._groups = self._groups, self._groups + 1
        lag = self._most + 1 if number % STALE == STALE - 1 else number % 2
        prompt = self._prompts[number % len(self._prompts)]
        start = self._tokens(prompt)["input_ids"]
        responses = [self._response() for _ in range(GROUP)]
        rows = [
            async_rollout_worker.TrainingSequence(
                start + ids,
                [0] * len(start) + [1] * len(ids),
                [0.0] * len(start) + [-self._random.uniform(5.2, 6.2) for _ in ids],
                SimpleNamespace(),
            )
            for ids in responses
        ]
        return async_rollout_worker.RolloutGroup(
            prompts=[prompt] * GROUP,
            reward_kwargs={},
            completions=[self._tokens.decode(ids, skip_special_tokens=True) for ids in responses],
            completions_ids=responses,
            completions_sequences=[[row] for row in rows],
            tool_call_counts=[0] * GROUP,
            tool_failure_counts=[0] * GROUP,
            model_version=self._version - lag,
            group_id=number,
            env_rewards=[None] * GROUP,
            rollout_rewards=[None] * GROUP,
        )

    def _response(self) -> list[int]:
        ids = [self._random.randrange(2, len(self._tokens)) for _ in range(self._random.randint(2, 9))]
        return [*ids, self._tokens.eos_token_id] if self._random.random() < 0.7 else ids
