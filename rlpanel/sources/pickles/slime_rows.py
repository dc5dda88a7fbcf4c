"""Joins the samples of a slime or miles rollout with what training computed, and with their conversations.

slime's ``train_data/{id}.pt`` names the sample's ``rollout_position``. miles writes columns of one rank in
``train_data/{id}_{rank}.pt`` (``save_debug_train_data_for_rank``), with ``sample_indices``; the lines of
``trajectory/{id}.jsonl`` have the same index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from rlpanel.slime_samples import array_fields, sample_rows

#: Names of the files of a rollout: ``{id}.pt``, or ``eval_{id}.pt``.
DUMP_NAME = re.compile(r"(eval_)?(\d+)\.pt")


def trained_samples(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what training computed for each sample: slime's list, or the columns of one rank of miles.

    A part of a sequence under context parallelism is left out: it has fewer values than the response.
    """
    if isinstance(dump.get("samples"), list):
        return list(dump["samples"])
    columns = dump.get("rollout_data")
    if not isinstance(columns, dict) or int(dump.get("cp_size") or 1) > 1:
        return []
    indices: Any = columns.get("sample_indices")
    indices = indices.tolist() if hasattr(indices, "tolist") else indices
    if not isinstance(indices, (list, tuple)):
        return []
    per_sample = {
        key: values
        for key, values in columns.items()
        if isinstance(values, (list, tuple)) and len(values) == len(indices)
    }
    return [
        {"sample_index": index} | {key: values[at] for key, values in per_sample.items()}
        for at, index in enumerate(indices)
    ]


def rows(
    rollout: Mapping[str, Any],
    trained: Mapping[str, Any],
    name: str,
    conversations: Mapping[Any, Mapping[str, Any]] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Yield the native lines of a rollout.

    Parameters
    ----------
    rollout, trained : mapping
        Contents of the two files; ``trained`` is empty if the samples were not trained on yet.
    name : str
        The file's name, which gives the step and the split.
    conversations : mapping, optional
        Lines of miles' conversations by the sample's index.
    """
    match = DUMP_NAME.fullmatch(name)
    number = int(match[2]) if match else rollout.get("rollout_id")
    by_position = {sample.get("rollout_position"): sample for sample in trained.get("samples", [])}
    by_index = {sample.get("sample_index"): sample for sample in trained.get("samples", [])}
    samples = rollout["samples"]
    for position, (sample, fields) in enumerate(zip(samples, sample_rows(samples), strict=True)):
        row = {"step": rollout.get("rollout_id", number)} | fields
        index = sample.get("index")
        computed = by_position.get(position) or (by_index.get(index) if index is not None else None) or {}
        row |= array_fields(computed, int(sample.get("response_length") or 0))
        row |= _conversation(conversations.get(index))
        if match and match[1]:
            row["split"] = "eval"
        yield row


def _conversation(line: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the messages of a sample, divided after the logged prompt if they begin with it."""
    if line is None:
        return {}
    messages, prompt = line["messages"], line.get("prompt")
    if not isinstance(prompt, list) or prompt != messages[: len(prompt)]:
        return {"messages": messages}
    return {"messages": messages, "prompt_messages": len(prompt)}
