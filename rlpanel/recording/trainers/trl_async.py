"""Records rollouts of TRL's AsyncGRPOTrainer, which another process samples and scores.

The samples reach the trainer through a queue. Its main process drops those that are too old, packs the others
into micro-batches, and trains on these in the same order. So a sample is recorded when its micro-batch passes
through the loss, with that step and that version of the policy. A sample that was taken from the queue before
the last recorded one, and is in no micro-batch, was dropped.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlpanel.recording.trainers import rollout_rows
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.rollout_rows import Decode, decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter

_QUEUE, _LOADER, _LOSS = "rollout_queue", "get_train_dataloader", "compute_loss"


@dataclass
class _Drawn:
    """A sample that the trainer took from the queue."""

    sample: Any
    version: int  # of the trainer's policy at that time
    waited: float  # seconds in the queue


class _TappedQueue:
    """A queue that reports each item that is taken from it."""

    def __init__(self, queue: Any, report: Callable[[Any], None]) -> None:
        self._queue, self._report = queue, report

    def get(self, *args: Any, **kwargs: Any) -> Any:
        item = self._queue.get(*args, **kwargs)
        self._report(item)
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class QueueHook:
    """Hook that takes rows from the queue of scored samples; see the module's docstring."""

    def __init__(self, trainer: Any, writer: RolloutWriter, patches: Patches, guard: Guard) -> None:
        self.trainer, self.writer, self._patches, self._guard = trainer, writer, patches, guard
        self._decode: Decode | None = None
        #: Samples that are in no micro-batch yet, by the identity of their token ids, in the queue's order.
        self._drawn: dict[int, _Drawn] = {}
        #: Micro-batches that did not pass through the loss yet; of each, the samples of each process.
        self._batches: deque[list[list[_Drawn]]] = deque()
        self._step = self._micro_batch = 0

    @staticmethod
    def suits(trainer: Any) -> bool:
        """Return True for AsyncGRPOTrainer and its subclasses; distillation has a queue of other samples."""
        names = [kind.__name__ for kind in type(trainer).__mro__]
        return hasattr(trainer, _QUEUE) and any(name.endswith("AsyncGRPOTrainer") for name in names)

    def attach(self) -> str:
        """Wrap the methods that make and use micro-batches; return a message about missing fields."""
        if not self.trainer.accelerator.is_main_process:
            return ""  # all samples pass through the main process
        self._decode = self._guard("token text", decoder, tokenizer_of(self.trainer.processing_class))
        self._patches.wrap(self.trainer, _LOADER, self._around_loader)
        self._patches.wrap(self.trainer, _LOSS, self._around_loss)
        if self._processes == 1:
            return ""
        return (
            "with several processes, the trainer's logprobs and entropies are not recorded, only the engine's"
        )

    def logged(self) -> None:
        """Do nothing: rows come from the queue, not from the log."""

    def finish(self) -> None:
        """Do nothing: samples that did not pass through the loss were not trained on."""

    # -- wrappers of the trainer's methods ---------------------------------------------------------

    def _around_loader(self, original: Any, args: Any, kwargs: Any) -> Any:
        loader = original(*args, **kwargs)
        self._drawn, self._batches = {}, deque()
        self._guard("this trainer's rollouts", self._tap, loader)
        return loader

    def _tap(self, loader: Any) -> None:
        data = self.trainer._rollout_dataset
        self._patches.wrap(loader.collate_fn, "torch_call", self._around_collator)
        draw = partial(self._guard, "this trainer's rollouts", self._on_drawn)
        self._patches.replace(data, "queue", _TappedQueue(data.queue, draw))

    def _around_collator(self, original: Any, args: Any, kwargs: Any) -> Any:
        batch = original(*args, **kwargs)
        self._guard("this trainer's rollouts", self._on_collated, *args)
        return batch

    def _around_loss(self, original: Any, args: Any, kwargs: Any) -> Any:
        outputs: list[Any] = []
        model = args[0] if args else kwargs.get("model")
        hook = self._guard("logprobs", self._keep_outputs, model, outputs) if self._processes == 1 else None
        try:
            loss = original(*args, **kwargs)
        finally:
            if hook is not None:
                hook.remove()
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs", {})
        self._guard("this trainer's rollouts", self._on_loss, inputs, outputs)
        return loss

    def _keep_outputs(self, model: Any, outputs: list[Any]) -> Any:
        return model.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))

    # -- rows --------------------------------------------------------------------------------------

    def _on_drawn(self, sample: Any) -> None:
        version, queued = self.trainer.model_version, getattr(sample, "enqueued_at", None)
        waited = time.time() - queued if queued is not None else math.nan
        self._drawn[id(sample.input_ids)] = _Drawn(sample, version, waited)

    def _on_collated(self, examples: Sequence[Any]) -> None:
        """Keep the samples of a micro-batch, and record those that were dropped before it was complete."""
        (rows,) = examples
        keys = [[id(example["input_ids"]) for example in row.samples] for row in rows]
        used = {key for row in keys for key in row}
        batch = [[self._drawn[key] for key in row if key in self._drawn] for row in keys]
        order = list(self._drawn)
        last = max((at for at, key in enumerate(order) if key in used), default=-1)
        for key in order[: last + 1]:
            drawn = self._drawn.pop(key)
            if key not in used:
                self._discard(drawn)
        self._batches.append(batch)

    def _discard(self, drawn: _Drawn) -> None:
        lag, most = drawn.version - drawn.sample.model_version, self.trainer.args.max_staleness
        reason = f"{lag} versions old, max_staleness is {most}" if lag > most else "longer than token_budget"
        row = self._row(drawn, drawn.version)
        self.writer.put(row | {"split": "discarded", "status": "discarded", "status_reason": reason})

    def _on_loss(self, inputs: Mapping[str, Any], outputs: Sequence[Any]) -> None:
        """Write the rows of a micro-batch that passed through the loss."""
        if not self._batches:
            return
        step = self.trainer.state.global_step + 1
        self._micro_batch = self._micro_batch + 1 if step == self._step else 0
        self._step = step
        batch, version = self._batches.popleft(), self.trainer.model_version
        passes = self._guard("logprobs", _trained_tokens, inputs, outputs[0]) if len(outputs) == 1 else None
        for process, samples in enumerate(batch):
            for index, drawn in enumerate(samples):
                row = self._row(drawn, version) | {"micro_batch": self._micro_batch}
                if process == 0 and passes is not None and index < len(passes):
                    row |= _at_trained_tokens(row["loss_mask"], passes[index])
                self.writer.put(row)

    def _row(self, drawn: _Drawn, version: int) -> dict[str, Any]:
        sample, metrics = drawn.sample, dict(drawn.sample.metrics)
        ids, mask = sample.input_ids.tolist(), [int(bit) for bit in sample.completion_mask.tolist()]
        start = mask.index(1) if 1 in mask else len(mask)
        row = self._texts(sample, ids, mask, start)
        row |= {"step": self.trainer.state.global_step + 1, "group": str(sample.group_id)}
        row |= rollout_rows.token_fields(ids[start:], self._decode, token_texts)
        row |= {"loss_mask": mask[start:], "rollout_logprobs": sample.old_log_probs[start:]}
        row |= {"response_length": sum(mask), "advantage": float(sample.advantage)}
        trained = [token for token, bit in zip(ids, mask, strict=True) if bit]
        row |= {"truncated": bool(trained) and trained[-1] not in self.trainer.eos_token_ids}
        row |= {"policy_version": sample.model_version, "trainer_version": version}
        row |= {"rewards": {name: metrics.pop(f"rewards/{name}") for name in _functions(metrics)}}
        row |= {"reward": metrics.pop("reward", None)}
        if not math.isnan(drawn.waited):
            row["timing"] = {"queue": drawn.waited}
        metrics.pop("reward_std", None)  # of the group, which follows from its rewards
        rollout_rows.add_columns(row, metrics)
        return row

    def _texts(self, sample: Any, ids: list[int], mask: list[int], start: int) -> dict[str, Any]:
        """Return the prompt and the response as text and, of a chat, its messages.

        The response is what the policy wrote: a conversation may have messages of tools, and may be trained
        on in several parts.
        """
        prompt, completion = sample.prompt, sample.completion
        texts: dict[str, Any] = {"prompt": rollout_rows.text_of(prompt)}
        texts["response"] = rollout_rows.policy_text(completion)
        if not isinstance(prompt, str):
            texts |= rollout_rows.conversation(prompt, completion)
        if self._decode and not isinstance(prompt, str):
            texts["prompt"] = partial(self._decode, ids[:start])
        if self._decode and len(texts.get("messages", ())) > len(prompt):
            texts["response"] = partial(
                self._decode, [token for token, bit in zip(ids, mask, strict=True) if bit]
            )
        return texts

    @property
    def _processes(self) -> int:
        return int(getattr(self.trainer.accelerator, "num_processes", 1))


def _functions(metrics: Mapping[str, Any]) -> Iterator[str]:
    return iter([name.removeprefix("rewards/") for name in metrics if name.startswith("rewards/")])


def _trained_tokens(inputs: Mapping[str, Any], output: Any) -> list[dict[str, list[float]]]:
    """Return each sample's logprobs and entropies at the tokens that it was trained on.

    The trainer packs samples into one row. ``token_index`` names, for each trained token, the position in
    that row that predicts it, and ``segment_id`` its sample.
    """
    chosen = inputs["token_index"] >= 0
    index, samples = inputs["token_index"][chosen], inputs["segment_id"][chosen].tolist()
    found: list[dict[str, list[float]]] = [{} for _ in range(max(samples, default=-1) + 1)]
    for name, values in (("logprobs", output.log_probs), ("entropy", output.entropy)):
        for sample, value in zip(samples, values.detach().flatten()[index].tolist(), strict=True):
            found[sample].setdefault(name, []).append(value)
    return found


def _at_trained_tokens(mask: Sequence[int], values: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return arrays of the response's length; tokens outside of the loss have no value."""
    arrays = {}
    for name, trained in values.items():
        rest = iter(trained)
        arrays[name] = [next(rest) if bit else math.nan for bit in mask]
    return arrays
