"""Rollouts of TRL's GRPOTrainer and RLOOTrainer, taken where they are.

Four methods are wrapped. Two facts decide how. GRPO does not keep the policy's logprobs: they exist inside
the loss's forward pass, where before the first update they are those of the policy that sampled, so they are
copied there and no pass is added. And between generation and loss the batch is shuffled and split, so
generation's result is given a tensor of row numbers, which is shuffled and split along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlpanel.recording.trainers import rows
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.token_text import Decode, decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter

#: Carries row numbers through the trainer's shuffle and split.
ROW = "rlpanel_row"
_GENERATE, _REWARDS = "_generate_and_score_completions", "_calculate_rewards"
_FORWARD, _LOSS = "_get_per_token_logps_and_entropies", "_compute_loss"

_SCORED = ("inputs", "prompts", "completions", "completion_ids_list")


@dataclass
class _Generation:
    """One call of generation, while it runs."""

    split: str
    inputs: list[dict[str, Any]]
    prompts: list[Any] = field(default_factory=list)
    completions: list[Any] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    scores: Any = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    forwards: list[Any] = field(default_factory=list)


@dataclass
class _Waiting:
    """A row on its way through the loss."""

    row: dict[str, Any]
    length: int
    split: str
    sampled: bool  # whether logprobs of the sampling policy came with generation
    passes: int = 0


class GroupHook:
    """Takes rows from a trainer that generates groups; see the module."""

    def __init__(self, trainer: Any, writer: RolloutWriter, hooks: Patches, guard: Guard) -> None:
        self.trainer, self.writer, self._hooks, self._guard = trainer, writer, hooks, guard
        self._decode: Decode | None = None
        self._eval: RolloutWriter | None = None
        self._now: _Generation | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = 0
        self._generations = {"train": 0, "eval": 0}
        self._micro = {"train": 0, "eval": 0}
        self._in_loss = False
        self._seen: Any = None
        self._with_loss = False

    @staticmethod
    def missing(trainer: Any) -> str:
        """A method that this way of recording cannot do without, where the trainer lacks one."""
        return next((name for name in (_GENERATE, _REWARDS) if not hasattr(trainer, name)), "")

    def attach(self) -> str:
        """Wrap the methods; what rows will lack, in words."""
        self._decode = self._guard("token text", decoder, tokenizer_of(self.trainer.processing_class))
        self._hooks.wrap(self.trainer, _GENERATE, self._around_generation)
        self._hooks.wrap(self.trainer, _REWARDS, self._around_rewards)
        forward = self._hooks.wrap(self.trainer, _FORWARD, self._around_forward)
        self._with_loss = self._hooks.wrap(self.trainer, _LOSS, self._around_loss) and forward
        if self._with_loss:
            return ""
        return f"this {type(self.trainer).__name__} has no {_FORWARD} or {_LOSS}: no logprobs, no entropies"

    def logged(self) -> None:
        """Nothing: rows come from the methods, not from the log."""

    def finish(self) -> None:
        """Hand over rows whose last pass through the loss never came."""
        self._hand_over("train")
        self._hand_over("eval")
        if self._eval is not None:
            self._eval.flush()

    # -- around the trainer's methods --------------------------------------------------------------

    def _around_generation(self, original: Any, args: Any, kwargs: Any) -> Any:
        split = "train" if self.trainer.model.training else "eval"
        self._now = _Generation(split, args[0] if args else kwargs.get("inputs", []))
        try:
            output = original(*args, **kwargs)
            self._guard("generation", self._generated, self._now, output)
            return output
        finally:
            self._now = None

    def _around_rewards(self, original: Any, args: Any, kwargs: Any) -> Any:
        scores = original(*args, **kwargs)
        if self._now is not None:
            self._guard("rewards", self._scored, self._now, scores, args, kwargs)
        return scores

    def _around_forward(self, original: Any, args: Any, kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if self._in_loss and self._seen is None:
            self._seen = found
        elif self._now is not None:
            self._now.forwards.append(found[0])
        return found

    def _around_loss(self, original: Any, args: Any, kwargs: Any) -> Any:
        self._in_loss, self._seen = True, None
        try:
            loss = original(*args, **kwargs)
        finally:
            self._in_loss = False
        batch = args[1] if len(args) > 1 else kwargs.get("inputs", {})
        self._guard("logprobs", self._passed, batch, self._seen)
        self._seen = None
        return loss

    # -- rows --------------------------------------------------------------------------------------

    def _scored(self, now: _Generation, scores: Any, args: Any, kwargs: Any) -> None:
        named = dict(zip(_SCORED, args, strict=False)) | kwargs
        prompts, completions, ids = (named[name] for name in _SCORED[1:])
        now.prompts, now.completions, now.ids = prompts, completions, ids
        own = slice(self._process * len(prompts), (self._process + 1) * len(prompts))
        now.scores = scores[own]  # all processes' scores are in it
        pending = getattr(self.trainer, "_pending_extra_logs", {})
        now.extra = {key: list(values) for key, values in pending.items() if len(values) == len(prompts)}

    def _generated(self, now: _Generation, output: dict[str, Any]) -> None:
        """One row for each completion, to be completed by the loss."""
        self._hand_over(now.split)
        self._micro[now.split] = 0
        first, count = self._numbers, len(now.prompts)
        self._numbers += count
        shared = self._shared(now)
        old, ref = self._reference(now, output)
        arrays = {
            "logprobs": old,
            "ref_logprobs": ref,
            "rollout_logprobs": output.get("sampling_per_token_logps"),
        }
        arrays = {name: rows.host(values) for name, values in arrays.items() if values is not None}
        advantages = rows.host(output["advantages"]).tolist()
        masks = rows.loss_masks(output, [len(ids) for ids in now.ids])
        prompt_ids = rows.unpadded(output["prompt_ids"], output["prompt_mask"])
        weighted = rows.weighted(now.scores, getattr(self.trainer, "reward_weights", None))
        for at, ids in enumerate(now.ids):
            length = len(ids)
            row = shared | self._texts(now, at, prompt_ids[at]) | rows.tokens(ids, self._decode, token_texts)
            row |= {name: values[at, :length] for name, values in arrays.items()}
            row |= {"group": self._group(now, at, count), "advantage": advantages[at], "reward": weighted[at]}
            row |= {"rewards": rows.named(self.trainer, now.scores[at])}
            row |= {"response_length": sum(masks[at]) if "tool_mask" in output else length}
            row |= {"truncated": bool(length) and ids[-1] not in self._ends()}
            if not all(masks[at]):
                row["loss_mask"] = masks[at]
            extra = {key: values[at] for key, values in now.extra.items()}
            rows.add_columns(row, now.inputs[at] | extra)
            self._waiting[first + at] = _Waiting(row, length, now.split, sampled="logprobs" in row)
        self._generations[now.split] += 1
        if self._with_loss:
            output[ROW] = output["completion_ids"].new_tensor(range(first, first + count)).cpu()
        else:
            self._hand_over(now.split)

    def _passed(self, batch: dict[str, Any], seen: Any) -> None:
        """A micro-batch went through the loss."""
        numbers = batch.get(ROW)
        if numbers is None or seen is None:
            return
        found = [self._waiting.get(number) for number in numbers.tolist()]
        split = next((one.split for one in found if one), "train")
        micro = self._micro[split] % (self.trainer.args.steps_per_generation if split == "train" else 1)
        self._micro[split] += 1
        logprobs = rows.host(seen[0])
        entropies = rows.host(seen[1]) if seen[1] is not None else None
        last = (getattr(self.trainer, "num_iterations", None) or 1) if split == "train" else 1
        for at, (number, one) in enumerate(zip(numbers.tolist(), found, strict=True)):
            if one is None:
                continue
            one.passes += 1
            if one.passes == 1:
                one.row["micro_batch"] = micro
                if entropies is not None:
                    one.row["entropy"] = entropies[at, : one.length]
            one.row["new_logprobs" if one.sampled else "logprobs"] = logprobs[at, : one.length]
            if one.passes >= last:
                self._write(self._waiting.pop(number))

    def _hand_over(self, split: str) -> None:
        for number in [number for number, one in self._waiting.items() if one.split == split]:
            self._write(self._waiting.pop(number))

    def _write(self, one: _Waiting) -> None:
        if one.split == "train":
            self.writer.put(one.row)
            return
        if self._eval is None:
            # A run of its own: evaluation's samples must not enter the means of training's steps.
            self._eval = self.writer.beside("eval")
        self._eval.put(one.row | {"split": "eval"})

    # -- what a row is made of ---------------------------------------------------------------------

    @property
    def _process(self) -> int:
        return int(self.trainer.accelerator.process_index)

    def _shared(self, now: _Generation) -> dict[str, Any]:
        done = self.trainer.state.global_step
        step = done + 1 if now.split == "train" else done
        return {"step": step, "generation": self._generations[now.split]}

    def _group(self, now: _Generation, at: int, count: int) -> str:
        """The prompt's place among all processes': a group may straddle ranks."""
        size = self.trainer.num_generations
        if now.split == "eval":
            size = getattr(self.trainer, "num_generations_eval", size)
        return f"{self._generations[now.split]}-{(self._process * count + at) // size}"

    def _reference(self, now: _Generation, output: dict[str, Any]) -> tuple[Any, Any]:
        """Logprobs of the policy that sampled, and of the reference, as generation left them.

        GRPO returns both where it has them. RLOO keeps neither: its first forward pass is the policy's,
        and the last one the reference's where beta is not 0.
        """
        old, ref = output.get("old_per_token_logps"), output.get("ref_per_token_logps")
        if "old_logps" in output and now.forwards:
            old = now.forwards[0]
            ref = now.forwards[-1] if len(now.forwards) > 1 else None
        return old, ref

    def _texts(self, now: _Generation, at: int, prompt_ids: list[int]) -> dict[str, Any]:
        prompt, completion = now.prompts[at], now.completions[at]
        found: dict[str, Any] = {"prompt": prompt, "response": rows.text_of(completion)}
        if not isinstance(prompt, str):
            found["messages"] = prompt
            found["prompt"] = partial(self._decode, prompt_ids) if self._decode else rows.text_of(prompt)
        return found

    def _ends(self) -> set[int]:
        """Tokens that end a response; one that ends with none of them was cut."""
        tokenizer = tokenizer_of(self.trainer.processing_class)
        many = getattr(self.trainer, "eos_token_ids", None)
        one = getattr(self.trainer, "eos_token_id", tokenizer.eos_token_id)
        return {*(many or [one]), tokenizer.pad_token_id}
