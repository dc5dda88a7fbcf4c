"""The public way: reward functions see every prompt and completion, so wrapping them records the essentials.

Used where a trainer has not the methods that `rlpanel.recording.trainers.trl_grpo` wraps.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from rlpanel.recording.trainers import rows
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.token_text import decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter


class RewardHook:
    """Takes rows from the arguments and results of a trainer's reward functions."""

    def __init__(self, trainer: Any, writer: RolloutWriter, hooks: Patches, guard: Guard) -> None:
        self.trainer, self.writer, self._hooks, self._guard = trainer, writer, hooks, guard
        self._decode: Any = None
        self._scores: dict[str, list[Any]] = {}
        self._batches = 0

    def attach(self) -> str:
        """Put a wrapper in the place of each reward function; what rows will lack, in words."""
        trainer = self.trainer
        self._decode = self._guard("token text", decoder, tokenizer_of(trainer.processing_class))
        # A reward model is a module and is called otherwise.
        functions = [one for one in trainer.reward_funcs if not hasattr(one, "parameters")]
        self._expected = len(functions)
        if not functions:
            return "and no reward function to listen to; only scalars are recorded"
        self._hooks.replace(
            trainer,
            "reward_funcs",
            [self._tap(one) if one in functions else one for one in trainer.reward_funcs],
        )
        return "rollouts come from its reward functions; no logprobs, ref_logprobs, advantages or entropies"

    def logged(self) -> None:
        """Nothing: rows come when the last function has scored."""

    def finish(self) -> None:
        """Nothing is held back."""

    def _tap(self, function: Any) -> Any:
        name = getattr(function, "__name__", type(function).__name__)

        @functools.wraps(function)
        def scored(*args: Any, **kwargs: Any) -> Any:
            given = function(*args, **kwargs)
            self._guard("rewards", self._note, name, given, kwargs)
            return given

        @functools.wraps(function)
        async def scored_later(*args: Any, **kwargs: Any) -> Any:
            given = await function(*args, **kwargs)
            self._guard("rewards", self._note, name, given, kwargs)
            return given

        return scored_later if inspect.iscoroutinefunction(function) else scored

    def _note(self, name: str, given: Any, kwargs: dict[str, Any]) -> None:
        self._scores[f"{name}_{len(self._scores)}" if name in self._scores else name] = list(given)
        if len(self._scores) == self._expected:
            scores, self._scores = self._scores, {}
            self._write(scores, kwargs)

    def _write(self, scores: dict[str, list[Any]], kwargs: dict[str, Any]) -> None:
        if not self.trainer.model.training:
            return  # evaluation's samples must not enter the means of training's steps
        prompts, completions = kwargs["prompts"], kwargs["completions"]
        process, size = self.trainer.accelerator.process_index, getattr(self.trainer, "num_generations", 1)
        for at, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            given = {name: values[at] for name, values in scores.items()}
            row: dict[str, Any] = {
                "step": self.trainer.state.global_step + 1,
                "prompt": rows.text_of(prompt),
                "response": rows.text_of(completion),
                "group": f"{self._batches}-{(process * len(prompts) + at) // size}",
                "rewards": given,
                "reward": self._total(given),
            }
            ids = kwargs.get("completion_ids")
            row |= rows.tokens(ids[at], self._decode, token_texts) if ids is not None else {}
            columns = {key: values[at] for key, values in kwargs.items() if _is_column(values, len(prompts))}
            rows.add_columns(row, columns)
            self.writer.put(row)
        self._batches += 1

    def _total(self, given: dict[str, Any]) -> float | None:
        """The weighted sum, where every function was heard."""
        weights = getattr(self.trainer, "reward_weights", None)
        factors = weights.tolist() if weights is not None else [1.0] * len(given)
        if len(factors) != len(given):
            return None
        pairs = zip(given.values(), factors, strict=True)
        heard = [float(score) * factor for score, factor in pairs if score is not None]
        return sum(heard) if heard else None


def _is_column(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count
