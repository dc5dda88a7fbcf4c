"""Records rollouts of TRL's GRPOTrainer and RLOOTrainer by wrapping four of their methods.

GRPO does not keep the policy's logprobs: they exist only in the forward pass of the loss. They are copied
there, so no pass is added. Before the first update, they are the logprobs of the policy that sampled.

Between generation and loss, the trainer shuffles and splits the batch. So a tensor of row numbers is added
to the generation's result: it is shuffled and split in the same way and identifies the rows in the loss.

A trainer that computes its loss in another way, as unsloth's compiled trainers and fused kernels do, has no
logprobs that could be copied. Its rows lack them, which is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlpanel.recording.trainers import rollout_rows
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.rollout_rows import Decode, decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter

#: Batch key of the row numbers, which pass through the trainer's shuffle and split.
ROW = "rlpanel_row"
_GENERATE, _REWARDS = "_generate_and_score_completions", "_calculate_rewards"
_FORWARD, _LOSS = "_get_per_token_logps_and_entropies", "compute_loss"

_SCORED = ("inputs", "prompts", "completions", "completion_ids_list")


@dataclass
class _Generation:
    """Data collected during one call of the generation method."""

    split: str
    inputs: list[dict[str, Any]]
    prompts: list[Any] = field(default_factory=list)
    completions: list[Any] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    scores: Any = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    forwards: list[Any] = field(default_factory=list)


@dataclass
class _PendingRow:
    """A row that still needs passes through the loss before it is written."""

    row: dict[str, Any]
    length: int
    split: str
    sampled: bool  # the generation returned logprobs of the sampling policy
    passes: int = 0


class GroupHook:
    """Hook that takes rows from a trainer that generates groups; see the module's docstring."""

    def __init__(
        self,
        trainer: Any,
        writer: RolloutWriter,
        patches: Patches,
        guard: Guard,
        say: Callable[[str], None],
    ) -> None:
        self.trainer, self.writer, self._patches, self._guard = trainer, writer, patches, guard
        self._say, self._said = say, False
        self._decode: Decode | None = None
        self._eval: RolloutWriter | None = None
        self._generation: _Generation | None = None
        self._pending: dict[int, _PendingRow] = {}
        self._next_number = 0
        self._generations = {"train": 0, "eval": 0}
        self._micro_batches = {"train": 0, "eval": 0}
        self._in_loss = False
        self._loss_forward: Any = None
        self._unseen = 0  # generations whose rows did not pass through the loss

    @staticmethod
    def missing_method(trainer: Any) -> str:
        """Return the name of a required method that the trainer lacks, or an empty string."""
        return next((name for name in (_GENERATE, _REWARDS) if not hasattr(trainer, name)), "")

    def attach(self) -> str:
        """Wrap the methods; return a message about fields that rows will lack, or an empty string."""
        self._decode = self._guard("token text", decoder, tokenizer_of(self.trainer.processing_class))
        self._patches.wrap(self.trainer, _GENERATE, self._around_generation)
        self._patches.wrap(self.trainer, _REWARDS, self._around_rewards)
        self._patches.wrap(self.trainer, _FORWARD, self._around_forward)
        self._patches.wrap(self.trainer, _LOSS, self._around_loss)
        return ""

    def logged(self) -> None:
        """Do nothing: rows come from the methods, not from the log."""

    def finish(self) -> None:
        """Write the rows that are still waiting for a pass through the loss."""
        self._write_pending("train")
        self._write_pending("eval")
        if self._eval is not None:
            self._eval.flush()

    # -- wrappers of the trainer's methods ---------------------------------------------------------

    def _around_generation(self, original: Any, args: Any, kwargs: Any) -> Any:
        split = "train" if self.trainer.model.training else "eval"
        self._generation = _Generation(split, args[0] if args else kwargs.get("inputs", []))
        try:
            output = original(*args, **kwargs)
            self._guard("generation", self._on_generated, self._generation, output)
            return output
        finally:
            self._generation = None

    def _around_rewards(self, original: Any, args: Any, kwargs: Any) -> Any:
        scores = original(*args, **kwargs)
        if self._generation is not None:
            self._guard("rewards", self._on_scored, self._generation, scores, args, kwargs)
        return scores

    def _around_forward(self, original: Any, args: Any, kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if self._in_loss and self._loss_forward is None:
            self._loss_forward = output
        elif self._generation is not None:
            self._generation.forwards.append(output[0])
        return output

    def _around_loss(self, original: Any, args: Any, kwargs: Any) -> Any:
        self._in_loss, self._loss_forward = True, None
        try:
            loss = original(*args, **kwargs)
        finally:
            self._in_loss = False
        batch = args[1] if len(args) > 1 else kwargs.get("inputs", {})
        self._guard("logprobs", self._on_loss, batch, self._loss_forward)
        self._loss_forward = None
        return loss

    # -- rows --------------------------------------------------------------------------------------

    def _on_scored(self, generation: _Generation, scores: Any, args: Any, kwargs: Any) -> None:
        named = dict(zip(_SCORED, args, strict=False)) | kwargs
        prompts, completions, ids = (named[name] for name in _SCORED[1:])
        generation.prompts, generation.completions, generation.ids = prompts, completions, ids
        own = slice(self._process * len(prompts), (self._process + 1) * len(prompts))
        generation.scores = scores[own]  # the tensor holds the scores of all processes
        pending = getattr(self.trainer, "_pending_extra_logs", {})
        generation.extra = {
            key: list(values) for key, values in pending.items() if len(values) == len(prompts)
        }

    def _on_generated(self, generation: _Generation, output: dict[str, Any]) -> None:
        """Make one row per completion; the passes through the loss complete it."""
        self._check_passes(generation.split)
        self._write_pending(generation.split)
        self._micro_batches[generation.split] = 0
        first, count = self._next_number, len(generation.prompts)
        self._next_number += count
        shared = self._shared(generation)
        old, ref = self._policy_and_ref_logprobs(generation, output)
        arrays = {
            "logprobs": old,
            "ref_logprobs": ref,
            "rollout_logprobs": output.get("sampling_per_token_logps"),
        }
        arrays = {name: rollout_rows.to_host(values) for name, values in arrays.items() if values is not None}
        advantages = rollout_rows.to_host(output["advantages"]).tolist()
        masks = rollout_rows.loss_masks(output, [len(ids) for ids in generation.ids])
        ratios = rollout_rows.importance_ratios(output.get("importance_sampling_ratio"), masks)
        prompt_ids = rollout_rows.unpadded(output["prompt_ids"], output["prompt_mask"])
        weighted = rollout_rows.weighted_rewards(
            generation.scores, getattr(self.trainer, "reward_weights", None)
        )
        for index, ids in enumerate(generation.ids):
            length = len(ids)
            tool_mask = output["tool_mask"][index, :length].tolist() if "tool_mask" in output else None
            row = shared | self._texts(generation, index, prompt_ids[index], tool_mask)
            row |= rollout_rows.token_fields(ids, self._decode, token_texts)
            row |= {name: values[index, :length] for name, values in arrays.items()}
            row |= {"group": self._group(generation, index, count)}
            row |= {"advantage": advantages[index], "reward": weighted[index]}
            row |= {"rewards": rollout_rows.scores_by_function(self.trainer, generation.scores[index])}
            row |= ratios[index]
            row |= {"response_length": sum(tool_mask or ()) or length}
            row |= {"truncated": bool(length) and ids[-1] not in self._end_tokens()}
            if tool_mask is not None or not all(masks[index]):
                # With tools every row has a mask, so that every row has a trajectory length.
                row["loss_mask"] = masks[index]
            extra = {key: values[index] for key, values in generation.extra.items()}
            rollout_rows.add_columns(row, generation.inputs[index] | extra)
            self._pending[first + index] = _PendingRow(
                row, length, generation.split, sampled="logprobs" in row
            )
        self._generations[generation.split] += 1
        output[ROW] = output["completion_ids"].new_tensor(range(first, first + count)).cpu()

    def _on_loss(self, batch: dict[str, Any], forward: Any) -> None:
        """Complete the rows of a micro-batch that passed through the loss; write those with no pass left."""
        numbers = batch.get(ROW)
        if numbers is None:
            return
        entries = [self._pending.get(number) for number in numbers.tolist()]
        split = next((entry.split for entry in entries if entry), "train")
        micro = self._micro_batches[split] % (
            self.trainer.args.steps_per_generation if split == "train" else 1
        )
        self._micro_batches[split] += 1
        logprobs, entropies = (_on_host(values) for values in (forward or (None, None))[:2])
        if logprobs is None:
            self._say_once(f"computes its loss without {_FORWARD}", entries)
        last = (getattr(self.trainer, "num_iterations", None) or 1) if split == "train" else 1
        for index, (number, entry) in enumerate(zip(numbers.tolist(), entries, strict=True)):
            if entry is None:
                continue
            entry.passes += 1
            if entry.passes == 1:
                entry.row["micro_batch"] = micro
                if entropies is not None:
                    entry.row["entropy"] = entropies[index, : entry.length]
            if logprobs is not None:
                entry.row["new_logprobs" if entry.sampled else "logprobs"] = logprobs[index, : entry.length]
            if entry.passes >= last:
                self._write(self._pending.pop(number))

    def _check_passes(self, split: str) -> None:
        """Say so if the rows of two generations did not pass through the loss."""
        entries = [entry for entry in self._pending.values() if entry.split == split == "train"]
        if entries and not any(entry.passes for entry in entries):
            self._unseen += 1
            if self._unseen == 2:
                self._say_once(f"trains without the batches of {_GENERATE} in its {_LOSS}", entries)

    def _say_once(self, why: str, entries: Iterable[_PendingRow | None]) -> None:
        if self._said:
            return
        self._said = True
        name = "new_logprobs" if any(entry.sampled for entry in entries if entry) else "logprobs"
        self._say(f"this {type(self.trainer).__name__} {why}: no {name}, no entropies")

    def _write_pending(self, split: str) -> None:
        for number in [number for number, entry in self._pending.items() if entry.split == split]:
            self._write(self._pending.pop(number))

    def _write(self, entry: _PendingRow) -> None:
        if entry.split == "train":
            self.writer.put(entry.row)
            return
        if self._eval is None:
            # A separate run: samples of the evaluation must not enter the means of training steps.
            self._eval = self.writer.beside("eval")
        self._eval.put(entry.row | {"split": "eval"})

    # -- the fields of a row -----------------------------------------------------------------------

    @property
    def _process(self) -> int:
        return int(self.trainer.accelerator.process_index)

    def _shared(self, generation: _Generation) -> dict[str, Any]:
        done = self.trainer.state.global_step
        step = done + 1 if generation.split == "train" else done
        return {"step": step, "generation": self._generations[generation.split]}

    def _group(self, generation: _Generation, index: int, count: int) -> str:
        """Return the group's name: the prompt's number over all processes, as a group may span ranks."""
        size = self.trainer.num_generations
        if generation.split == "eval":
            size = getattr(self.trainer, "num_generations_eval", size)
        return f"{self._generations[generation.split]}-{(self._process * count + index) // size}"

    def _policy_and_ref_logprobs(self, generation: _Generation, output: dict[str, Any]) -> tuple[Any, Any]:
        """Return the logprobs of the sampling policy and of the reference after a generation, None if absent.

        GRPO returns both if it has them. RLOO returns neither: its first forward pass is the policy's. If
        beta is not 0, its last one is the reference's.
        """
        old, ref = output.get("old_per_token_logps"), output.get("ref_per_token_logps")
        if "old_logps" in output and generation.forwards:
            old = generation.forwards[0]
            ref = generation.forwards[-1] if len(generation.forwards) > 1 else None
        return old, ref

    def _texts(
        self, generation: _Generation, index: int, prompt_ids: list[int], tool_mask: list[int] | None
    ) -> dict[str, Any]:
        """Return the prompt and the response as text and, of a chat, its messages.

        With tools, the response is what the policy wrote. TRL masks a truncated sample wholly if
        ``mask_truncated_completions`` is set; then it is what the messages of the policy say.
        """
        prompt, completion = generation.prompts[index], generation.completions[index]
        texts: dict[str, Any] = {"prompt": prompt, "response": rollout_rows.policy_text(completion)}
        if not isinstance(prompt, str):
            has_tools = bool(getattr(self.trainer, "tools", None))
            texts |= rollout_rows.conversation(prompt, completion, whole=has_tools)
            texts["prompt"] = (
                partial(self._decode, prompt_ids) if self._decode else rollout_rows.text_of(prompt)
            )
        if self._decode and tool_mask and any(tool_mask) and not all(tool_mask):
            own = [token for token, bit in zip(generation.ids[index], tool_mask, strict=True) if bit]
            texts["response"] = partial(self._decode, own)
        return texts

    def _end_tokens(self) -> set[int]:
        """Return the tokens that end a response; a response without one at its end was truncated."""
        tokenizer = tokenizer_of(self.trainer.processing_class)
        eos_ids = getattr(self.trainer, "eos_token_ids", None)
        eos_id = getattr(self.trainer, "eos_token_id", tokenizer.eos_token_id)
        return {*(eos_ids or [eos_id]), tokenizer.pad_token_id}


def _on_host(values: Any) -> Any:
    return None if values is None else rollout_rows.to_host(values)
