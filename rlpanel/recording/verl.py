"""Records verl's rollouts with token arrays, which verl's own dump leaves out, by subclassing its trainer.

Neither verl nor its TransferQueue is imported at module level; the subclassed trainer has loaded them.
Written against verl 0.9.1, whose V1 trainer is executed in the tests with stand-ins for its models and its
queue. V1 appends rows with reward 0 to fill a batch; they are not recorded.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from rlpanel.recording.hook_rows import HookRows
from rlpanel.recording.output_folder import folder_from_environment
from rlpanel.recording.trainers.patching import Guard
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")

#: rlpanel's names of a response's arrays, and verl's.
ARRAYS = {
    "logprobs": "old_log_probs",
    "rollout_logprobs": "rollout_log_probs",
    "ref_logprobs": "ref_log_prob",
    "values": "values",
    "token_rewards": "token_level_rewards",
    "advantages": "advantages",
    "returns": "returns",
    "entropy": "entropy",
    "teacher_logprobs": "teacher_log_probs",
    "correction_weights": "rollout_is_weights",
}
_NEEDED = ("prompts", "responses", "response_mask")
_SCORES = ("rm_scores", "token_level_scores")
#: V1's mask of the tokens that the policy wrote. Rejection sampling changes ``response_mask``, but not this.
_WRITTEN = "loss_mask"
FIELDS = (*_NEEDED, _WRITTEN, *_SCORES, *ARRAYS.values())
#: V1's key of a sample: prompt, session, turn. A prompt's uid may contain underscores, too.
_KEY = re.compile(r"(.+)_(\d+)_(\d+)", re.ASCII | re.DOTALL)
#: V1's key of a row that fills a batch.
_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_0", re.ASCII)
#: V1's tags that are recorded: the first and the last version of the weights that sampled the trajectory.
_TAGS = ("min_global_steps", "max_global_steps")


def recording(trainer: type, dir: str | os.PathLike[str] | None = None, **settings: Any) -> type:
    """Return a subclass of a trainer that records each batch it logs.

    Parameters
    ----------
    trainer : type
        A trainer of verl's V1 (``verl.trainer.ppo.v1``) or the older ``RayPPOTrainer``. The subclass
        overrides ``_log_rollout_data``, which runs on the driver, so only one file is written.
    dir : path, optional
        The run's folder; by default `folder_from_environment`, or else ``trainer.rollout_data_dir``.
    **settings
        See `rlpanel.recording.Options`.

    Notes
    -----
    verl logs rollouts only if ``trainer.rollout_data_dir`` is set. Its own dump is still written.
    """

    class RecordingTrainer(trainer):
        _rlpanel_hook: VerlHook | None = None

        def _log_rollout_data(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
            if self._rlpanel_hook is None:
                dump = args[-1] if args else kwargs.get("rollout_data_dir", ".")
                folder = dir or folder_from_environment(dump) or dump
                self._rlpanel_hook = VerlHook(self, RolloutWriter(folder, **settings))
            self._rlpanel_hook(batch)
            return super()._log_rollout_data(batch, *args, **kwargs)

    RecordingTrainer.__name__ = RecordingTrainer.__qualname__ = f"Recording{trainer.__name__}"
    return RecordingTrainer


class VerlHook:
    """Hook that turns a batch of verl into rows."""

    def __init__(self, trainer: Any, writer: RolloutWriter) -> None:
        self.trainer, self.writer = trainer, writer
        self._guard = Guard()

    def __call__(self, batch: Any) -> None:
        """Write the batch's rows."""
        self._guard("verl's rollouts", self._record, batch)

    def _record(self, batch: Any) -> None:
        for row in _rows(self.trainer, batch):
            self.writer.write(**row)


def record_class(trainer: type, dir: str | os.PathLike[str] | None = None, **settings: Any) -> None:
    """Make a trainer's own class record each batch it logs, for a class that cannot be subclassed.

    An actor class of Ray is one: `rlpanel.recording.ray` calls this for its base class.

    Parameters
    ----------
    trainer : type
        As for `recording`.
    dir : path, optional
        The run's folder; by default ``rollout_samples/<EXP_NAME>`` beside ``trainer.rollout_data_dir``.
    **settings
        See `rlpanel.recording.Options`.
    """
    original = trainer._log_rollout_data  # type: ignore[attr-defined]
    rows = HookRows(dir, **settings)

    @functools.wraps(original)
    def log_rollout_data(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(type(self), "_rlpanel_hook"):  # a class of `recording` records by itself
            dump = args[-1] if args else kwargs.get("rollout_data_dir", ".")
            rows.write("verl's rollouts", Path(dump).absolute().parent, _rows, self, batch)
        return original(self, batch, *args, **kwargs)

    trainer._log_rollout_data = log_rollout_data  # type: ignore[attr-defined]


def _rows(trainer: Any, batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, each with its step."""
    if hasattr(batch, "batch"):
        # A dict, since `in` does not work on a TensorDict.
        data = {name: values for name, values in batch.batch.items() if name in FIELDS}
        columns = _columns_of_old(batch, len(data["responses"]))
    else:
        keys, columns = _columns_of_v1(batch)
        data = _fetch(keys, batch.partition_id) if keys else {"responses": ()}
    step, version = trainer.global_steps, _trained_version(trainer)
    for index in range(len(data["responses"])):
        row = _row(data, index, trainer.tokenizer)
        yield {"step": step, **row, **columns[index], **_versions(columns[index], version)}


def _trained_version(trainer: Any) -> int:
    """Return the version of the weights that a step trains: of a synchronous trainer, the step before."""
    version = getattr(trainer, "current_param_version", None)
    if version is None:
        return int(trainer.global_steps) - 1
    # The fully asynchronous trainer has counted its update before it logs, if the update ended a version.
    return int(version) - (trainer.local_trigger_step == 1)


def _versions(sample: Mapping[str, Any], trained: int) -> dict[str, Any]:
    """Return the versions of the weights that sampled a trajectory, and of those that the step trains."""
    first, last = (sample.get(name) for name in _TAGS)
    if first is None or last is None:
        return {}
    return {"policy_version": [first, last], "trainer_version": trained}


def _columns_of_old(batch: Any, length: int) -> list[dict[str, Any]]:
    """Return each sample's group and weights' versions in a batch of the older trainer.

    Its uid is one per prompt. Only asynchronous trainers note versions.
    """
    found: list[dict[str, Any]] = [{} for _ in range(length)]
    for name, key in (("group", "uid"), *((tag, tag) for tag in _TAGS)):
        values = batch.non_tensor_batch.get(key)
        for columns, value in zip(found, [] if values is None else values, strict=False):
            columns[name] = str(value) if key == "uid" else int(value)
    return found


def _columns_of_v1(batch: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the keys of a batch's samples and what key and tags say of each; padding is left out."""
    tags = getattr(batch, "tags", None) or [{}] * len(batch.keys)
    samples = [
        (key, _columns_of_key(key) | {name: tag.get(name) for name in _TAGS})
        for key, tag in zip(batch.keys, tags, strict=True)
        if not tag.get("is_padding") and not _PADDING.fullmatch(key)
    ]
    return [key for key, _ in samples], [columns for _, columns in samples]


def _columns_of_key(key: str) -> dict[str, Any]:
    match = _KEY.fullmatch(key)
    if match is None:
        return {"group": key}
    episode = f"{match[1]}_{match[2]}"  # as in verl's own dump
    return {"group": match[1], "episode": episode, "rollout_session": int(match[2]), "turn": int(match[3])}


def _fetch(keys: list[str], partition: str) -> dict[str, Any]:
    """Return the fields of samples in V1's TransferQueue; fields that this run lacks are left out."""
    queue = importlib.import_module("transfer_queue")
    data: dict[str, Any] = {}
    for name in FIELDS:
        try:
            result = queue.kv_batch_get(keys=keys, partition_id=partition, select_fields=[name])
            data[name] = result[name]
        except Exception as error:
            # The algorithm decides which fields exist, and the queue cannot be asked for their names.
            if name in _NEEDED:
                raise
            log.debug("rlpanel: verl has no %s: %s", name, error)
    return data


def _row(data: Mapping[str, Any], index: int, tokenizer: Any) -> dict[str, Any]:
    """Return one sample as a row without padding; its response is what the policy wrote."""
    pad = tokenizer.pad_token_id
    ids, mask, written = _response(data, index, pad)
    own = [token for token, bit in zip(ids, written, strict=True) if bit]
    prompt = [token for token in _list(data["prompts"][index]) if token != pad]
    row: dict[str, Any] = {
        "prompt": tokenizer.decode(prompt, skip_special_tokens=False),
        "response": tokenizer.decode(own or ids, skip_special_tokens=True),
        "response_token_ids": ids,
        "response_tokens": [tokenizer.decode([token]) for token in ids],
    }
    row |= {name: _list(data[key][index])[: len(ids)] for name, key in ARRAYS.items() if key in data}
    if score := next((key for key in _SCORES if key in data), None):
        row["reward"] = sum(_list(data[score][index]))
    if not all(mask):
        row["loss_mask"] = mask  # tokens of tools and rejected ones are masked
    return row


def _response(data: Mapping[str, Any], index: int, pad: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return a response's ids, its loss mask and which tokens the policy wrote, all without padding."""
    ids, mask = _list(data["responses"][index]), _list(data["response_mask"][index])
    written = _list(data[_WRITTEN][index]) if _WRITTEN in data else mask
    # Padding may be the token that ends a response, and tokens of a tool, which are masked, may end it, too.
    pairs = enumerate(zip(ids, written, strict=True), 1)
    length = max((count for count, (token, bit) in pairs if bit or token != pad), default=0)
    return ids[:length], mask[:length], written[:length]


def _list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def install(registry: MutableMapping[str, type], **settings: Any) -> list[str]:
    """Replace each registered V1 trainer by its recording subclass.

    The registered name stays, because V1 chooses how to sample by it (``trainer.v1.trainer_mode``): a
    trainer with any name but ``sync`` gets the asynchronous replay buffer.

    Parameters
    ----------
    registry : mapping of str to type
        ``verl.trainer.ppo.v1.trainer_base.TRAINER_REGISTRY``.
    **settings
        See `recording`.

    Returns
    -------
    list of str
        The modes that are recorded.
    """
    for name, trainer in registry.items():
        if not hasattr(trainer, "_rlpanel_hook"):
            registry[name] = recording(trainer, **settings)
    return sorted(registry)
