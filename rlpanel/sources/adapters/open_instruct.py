"""Reads open-instruct's ``{run}_rollouts_{shard}.jsonl`` (``--save_traces``), one line per sample, appended.

The lines hold token ids without text; ``logprobs`` are those of the inference engine, and
``trainer_logprobs`` those of the trainer where a version saves them. Other lists as long as the response,
such as ``teacher_logprobs``, keep their names. Source: ``rl_utils._save_rollouts``. A step's batch is written
once, with ``sample_idx`` from 0 on. A resumed job appends its steps again, to the first shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_KEYS = ("step", "prompt_tokens", "response_tokens")
_NAMES = {
    "prompt_idx": "group",
    "response_tokens": "response_token_ids",
    "logprobs": "rollout_logprobs",
    "trainer_logprobs": "logprobs",
    "masks": "loss_mask",
}
#: Keys that are not passed on unchanged.
_SEPARATE = frozenset({"step", "ground_truth", "dataset", "request_info"})


class OpenInstruct:
    """Adapter for open-instruct's saved traces."""

    name = "open-instruct"
    looks = "{run}_rollouts_{shard}.jsonl with 'prompt_tokens' and 'response_tokens' (open-instruct)"
    once_per_step = "sample_idx"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and the token ids of a prompt and a response."""
        return all(key in document for key in _KEYS)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        return [build_record(document["step"], _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if key not in _SEPARATE:
            yield _NAMES.get(key, key), value
    tools = to_python(document.get("request_info"))
    if isinstance(tools, dict):
        for key, value in tools.items():
            yield f"tools/{key}", value
    yield from _verifier_fields(to_python(document.get("dataset")), to_python(document.get("ground_truth")))


def _verifier_fields(dataset: Any, truth: Any) -> Iterator[tuple[str, Any]]:
    """Yield data set and ground truth, which are lists with one item for each verifier, or values."""
    if isinstance(dataset, list):
        dataset = ", ".join(map(str, dataset))
    if dataset is not None:
        yield "dataset", dataset
    if isinstance(truth, list) and truth and all(isinstance(item, int) for item in truth):
        yield "ground_truth_token_ids", truth
    elif truth not in (None, []):
        yield "ground_truth", truth
