"""Records rollouts by wrapping a TRL trainer's reward functions, which get every prompt and completion.

Used for trainers without the methods that `rlpanel.recording.trainers.trl_grpo` wraps. It needs only TRL's
public interface.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from rlpanel.recording.trainers import rollout_rows
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.rollout_rows import decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter


class RewardHook:
    """Hook that takes rows from the arguments and results of a trainer's reward functions."""

    def __init__(self, trainer: Any, writer: RolloutWriter, patches: Patches, guard: Guard) -> None:
        self.trainer, self.writer, self._patches, self._guard = trainer, writer, patches, guard
        self._decode: Any = None
        self._scores: dict[str, list[Any]] = {}
        self._batches = 0

    def attach(self) -> str:
        """Wrap each reward function; return a message about fields that rows will lack."""
        trainer = self.trainer
        self._decode = self._guard("token text", decoder, tokenizer_of(trainer.processing_class))
        # A reward model is a torch module; trainers call it with other arguments.
        known = getattr(trainer, "reward_funcs", None) or []
        functions = [function for function in known if not hasattr(function, "parameters")]
        self._expected = len(functions)
        if not functions:
            return "there is no reward function to wrap, so only scalars are recorded"
        self._patches.replace(
            trainer,
            "reward_funcs",
            [self._wrap(function) if function in functions else function for function in known],
        )
        return "rollouts come from its reward functions; no logprobs, ref_logprobs, advantages or entropies"

    def logged(self) -> None:
        """Do nothing: rows are written when the last function has scored a batch."""

    def finish(self) -> None:
        """Do nothing: all rows are written."""

    def _wrap(self, function: Any) -> Any:
        name = getattr(function, "__name__", type(function).__name__)

        @functools.wraps(function)
        def scored(*args: Any, **kwargs: Any) -> Any:
            scores = function(*args, **kwargs)
            self._guard("rewards", self._add_scores, name, scores, kwargs)
            return scores

        @functools.wraps(function)
        async def scored_later(*args: Any, **kwargs: Any) -> Any:
            scores = await function(*args, **kwargs)
            self._guard("rewards", self._add_scores, name, scores, kwargs)
            return scores

        return scored_later if inspect.iscoroutinefunction(function) else scored

    def _add_scores(self, name: str, scores: Any, kwargs: dict[str, Any]) -> None:
        self._scores[f"{name}_{len(self._scores)}" if name in self._scores else name] = list(scores)
        if len(self._scores) == self._expected:
            all_scores, self._scores = self._scores, {}
            self._write(all_scores, kwargs)

    def _write(self, scores: dict[str, list[Any]], kwargs: dict[str, Any]) -> None:
        if not self.trainer.model.training:
            return  # samples of the evaluation must not enter the means of training steps
        prompts, completions = kwargs["prompts"], kwargs["completions"]
        size = getattr(self.trainer, "num_generations", 1)
        groups = _groups(prompts, size, self.trainer.accelerator.process_index * len(prompts))
        for index, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            own_scores = {name: values[index] for name, values in scores.items()}
            row: dict[str, Any] = {
                "step": self.trainer.state.global_step + 1,
                "prompt": rollout_rows.text_of(prompt),
                "response": rollout_rows.policy_text(completion),
                "group": f"{self._batches}-{groups[index]}",
                "rewards": own_scores,
                "reward": self._total(own_scores),
            }
            if not isinstance(prompt, str):
                row |= rollout_rows.conversation(prompt, completion)
            ids = kwargs.get("completion_ids")
            row |= rollout_rows.token_fields(ids[index], self._decode, token_texts) if ids is not None else {}
            columns = {
                key: values[index] for key, values in kwargs.items() if _is_column(values, len(prompts))
            }
            rollout_rows.add_columns(row, columns)
            self.writer.put(row)
        self._batches += 1

    def _total(self, scores: dict[str, Any]) -> float | None:
        """Return the weighted sum of a sample's scores; None if the trainer has other weights or no score."""
        weights = getattr(self.trainer, "reward_weights", None)
        factors = weights.tolist() if weights is not None else [1.0] * len(scores)
        if len(factors) != len(scores):
            return None
        pairs = zip(scores.values(), factors, strict=True)
        products = [float(score) * factor for score, factor in pairs if score is not None]
        return sum(products) if products else None


def _groups(prompts: list[Any], size: int, start: int) -> list[int]:
    """Return the number of each sample's group, whose samples have equal prompts.

    Most trainers repeat each prompt ``size`` times; ``OnlineDPOTrainer`` repeats the whole batch.

    Parameters
    ----------
    prompts : list
    size : int
        Number of samples of a group.
    start : int
        Number of samples of the processes before this one.
    """
    numbers = [(start + index) // size for index in range(len(prompts))]
    pairs = zip(numbers, numbers[1:], prompts, prompts[1:], strict=False)
    if all(number != after or prompt == following for number, after, prompt, following in pairs):
        return numbers
    batch = len(prompts) // size
    if prompts == prompts[:batch] * size:
        return [start + index % batch for index in range(len(prompts))]
    return [start + prompts.index(prompt) for prompt in prompts]


def _is_column(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count
