"""Trainers that are compiled by unsloth, sampled by vLLM, or unknown to rlpanel."""

from __future__ import annotations

import inspect
import random
import sys
from types import ModuleType
from typing import Any

import torch
from transformers import Trainer


class Engine:
    """vLLM's part in TRL: random responses with the engine's logprobs; some tokens could not be scored."""

    def __init__(self, tokens: Any) -> None:
        self._tokens, self._random = tokens, random.Random(4)

    def sync_weights(self) -> None: ...

    def generate(self, prompts: list[list[int]], **_: Any) -> tuple[Any, list[list[int]], list[Any], Any]:
        """Return token ids and, of each token, the logprobs of the most probable ones; None is unknown."""
        ids = [[self._random.randrange(2, len(self._tokens)) for _ in range(8)] for _ in prompts]
        scored = [
            [[None if at == 2 and number % 4 == 1 else -self._random.uniform(5.3, 6.0)] for at in range(8)]
            for number in range(len(prompts))
        ]
        return None, ids, scored, None


def compiled(trainer: type) -> type:
    """Return a trainer as unsloth compiles it: a renamed copy of TRL's source whose loss is its own.

    See unsloth/models/rl_replacements.py of unsloth 2026.10.9, `grpo_trainer_compute_loss`: its fused kernel
    returns the loss alone.
    """
    name = trainer.__name__
    module = ModuleType(f"{trainer.__module__}_compiled")
    module.__package__ = trainer.__module__.rpartition(".")[0]
    module.__file__ = inspect.getsourcefile(trainer)
    sys.modules[module.__name__] = module
    source = inspect.getsource(sys.modules[trainer.__module__])
    exec(source.replace(f"class {name}(", f"class _Unsloth{name}("), vars(module))

    class Compiled(getattr(module, f"_Unsloth{name}")):
        def compute_loss(self, model: Any, inputs: Any, **_: Any) -> torch.Tensor:
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
            kept = inputs["completion_mask"]
            logits = logits[:, -kept.shape[1] :].log_softmax(-1)
            logprobs = logits.gather(2, inputs["completion_ids"].unsqueeze(2)).squeeze(2)
            loss = -torch.exp(logprobs - logprobs.detach()) * inputs["advantages"].unsqueeze(1)
            return (loss * kept).sum() / kept.sum() / self.current_gradient_accumulation_steps

    Compiled.__name__ = f"Unsloth{name}"
    return Compiled


def selective(trainer: type) -> type:
    """Return a trainer whose loss gets only the tensors that it knows."""

    class Selective(trainer):
        def _prepare_inputs(self, inputs: Any) -> Any:
            prepared = super()._prepare_inputs(inputs)
            return {name: value for name, value in prepared.items() if not name.startswith("rlpanel")}

    Selective.__name__ = f"Selective{trainer.__name__}"
    return Selective


class Elsewhere(Trainer):
    """A trainer of another package; what rlpanel asks first raises an error."""

    @property
    def reward_funcs(self) -> list[Any]:
        raise RuntimeError("rewards are computed elsewhere")
