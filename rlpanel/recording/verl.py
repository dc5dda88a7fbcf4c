"""Rollouts of verl: a trainer that records what its own dump leaves out, the numbers of each token.

Neither verl nor its TransferQueue is imported; the trainer that is subclassed brings them. Written against
verl 0.9.1 and tested against stand-ins with the same signatures, not against verl itself.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from rlpanel.recording.output_dir import folder_from_environment
from rlpanel.recording.trainers.patching import Guard
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")

#: What verl calls the arrays of a response, and what they are called here.
ARRAYS = {
    "logprobs": "old_log_probs",
    "rollout_logprobs": "rollout_log_probs",
    "ref_logprobs": "ref_log_prob",
    "values": "values",
    "token_rewards": "token_level_rewards",
    "advantages": "advantages",
    "returns": "returns",
    "entropy": "entropy",
}
_NEEDED = ("prompts", "responses", "response_mask")
_SCORES = ("rm_scores", "token_level_scores")
FIELDS = (*_NEEDED, *_SCORES, *ARRAYS.values())


def recording(trainer: type, dir: str | os.PathLike[str] | None = None, **settings: Any) -> type:
    """A trainer class that records each batch it logs.

    Parameters
    ----------
    trainer : type
        A trainer of verl's V1 (``verl.trainer.ppo.v1``) or the older ``RayPPOTrainer``; what is
        overridden is ``_log_rollout_data``, which runs on the driver, so there is one file.
    dir : path, optional
        The run's folder; else `folder_from_environment`, else ``trainer.rollout_data_dir`` itself.
    **settings
        See `rlpanel.recording.Options`.

    Notes
    -----
    verl logs rollouts only where ``trainer.rollout_data_dir`` is set. Its own dump is still written.
    """

    class RecordingTrainer(trainer):
        _rlpanel_tap: VerlHook | None = None

        def _log_rollout_data(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
            if self._rlpanel_tap is None:
                given = args[-1] if args else kwargs.get("rollout_data_dir", ".")
                folder = dir or folder_from_environment(given) or given
                self._rlpanel_tap = VerlHook(self, RolloutWriter(folder, **settings))
            self._rlpanel_tap(batch)
            return super()._log_rollout_data(batch, *args, **kwargs)

    RecordingTrainer.__name__ = RecordingTrainer.__qualname__ = f"Recording{trainer.__name__}"
    return RecordingTrainer


class VerlHook:
    """Turns a batch of verl's into rows."""

    def __init__(self, trainer: Any, writer: RolloutWriter) -> None:
        self.trainer, self.writer = trainer, writer
        self._guard = Guard()

    def __call__(self, batch: Any) -> None:
        """Write the batch's rows."""
        self._guard("verl's rollouts", self._record, batch)

    def _record(self, batch: Any) -> None:
        old = hasattr(batch, "batch")
        data, uids = (batch.batch, batch.non_tensor_batch.get("uid")) if old else (_fetch(batch), batch.keys)
        groups = _groups(uids, old)
        for at in range(len(data["responses"])):
            row = _row(data, at, self.trainer.tokenizer)
            group = {"group": groups[at]} if groups else {}
            self.writer.write(step=self.trainer.global_steps, **row, **group)


def _groups(uids: Any, old: bool) -> list[str]:
    """The older trainer's uid names the prompt; V1's keys are ``{prompt}_{session}_{turn}``."""
    if uids is None:
        return []
    return [str(uid) if old else str(uid).rsplit("_", 2)[0] for uid in uids]


def _fetch(batch: Any) -> Mapping[str, Any]:
    """The fields that V1 keeps in its TransferQueue, as far as this run has them."""
    queue = importlib.import_module("transfer_queue")
    found: dict[str, Any] = {}
    for name in FIELDS:
        try:
            one = queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=[name])
            found[name] = one[name]
        except Exception as error:
            # Each field is there or not by the run's algorithm, and the queue has no way to ask.
            if name in _NEEDED:
                raise
            log.debug("rlpanel: verl keeps no %s: %s", name, error)
    return found


def _row(data: Mapping[str, Any], at: int, tokenizer: Any) -> dict[str, Any]:
    """One sample: padding goes, and so does what is no part of the response."""
    ids, mask = _list(data["responses"][at]), _list(data["response_mask"][at])
    length = max((place + 1 for place, kept in enumerate(mask) if kept), default=0)
    keys = set(data.keys())
    pad = tokenizer.pad_token_id
    prompt = [token for token in _list(data["prompts"][at]) if token != pad]
    row: dict[str, Any] = {
        "prompt": tokenizer.decode(prompt, skip_special_tokens=False),
        "response": tokenizer.decode(ids[:length], skip_special_tokens=True),
        "response_token_ids": ids[:length],
        "response_tokens": [tokenizer.decode([token]) for token in ids[:length]],
    }
    row |= {name: _list(data[key][at])[:length] for name, key in ARRAYS.items() if key in keys}
    if score := next((key for key in _SCORES if key in keys), None):
        row["reward"] = sum(_list(data[score][at]))
    if not all(mask[:length]):
        row["loss_mask"] = mask[:length]  # another turn's words, or a tool's
    return row


def _list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def install(registry: MutableMapping[str, type], **settings: Any) -> list[str]:
    """Put a recording twin in the place of each registered V1 trainer.

    Under the same name, because V1 asks its trainer's name (``trainer.v1.trainer_mode``) how to sample: a
    trainer called anything but ``sync`` is given the asynchronous replay buffer.

    Parameters
    ----------
    registry : mapping of str to type
        ``verl.trainer.ppo.v1.trainer_base.TRAINER_REGISTRY``.
    **settings
        As `recording` takes them.

    Returns
    -------
    list of str
        The modes that are recorded.
    """
    for name, trainer in registry.items():
        if not hasattr(trainer, "_rlpanel_tap"):
            registry[name] = recording(trainer, **settings)
    return sorted(registry)
