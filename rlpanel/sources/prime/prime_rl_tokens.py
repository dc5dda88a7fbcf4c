"""Reads prime-rl's ``token_exports/step_{N}/rank_{R}.jsonl``: one line per sequence, tokens without texts.

The files of a step are complete when a file ``STABLE`` is in their folder; after a restart they are truncated
and written again. Complete exports are joined to the step's traces by the ids of all tokens. Without traces
they are shown on their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash

from rlpanel.errors import LineError
from rlpanel.sources.files.file_access import AnyPath, path_of, read, stream
from rlpanel.sources.prime.prime_rl import PrimeRL, branches, traces_of
from rlpanel.sources.records.field_values import whole_numbers
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_float_array, to_python
from rlpanel.sources.records.record_types import Adapter, Record

MARKER = "STABLE"
_NAMES = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "rollout_logprobs",
    "advantages": "advantages",
    "entropy": "entropy",
}


_KNOWN = frozenset({*_NAMES, "step", "rank", "micro_step", "env_name", "token_ids", "loss_mask"})


class PrimeTokens:
    """Adapter for sequences as the trainer used them."""

    name = "prime-rl tokens"
    looks = "token_exports/step_{N}/rank_{R}.jsonl with 'token_ids' and 'trainer_logprobs' (prime-rl)"
    path_in_run = re.compile(r"(?:token_exports/)?(?:step_\d+/)?rank_\d+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has the keys of an export."""
        return {"step", "token_ids", "loss_mask", "trainer_logprobs"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample: the tokens that took part in the loss."""
        for key in ("step", "token_ids", "loss_mask"):
            if key not in document:
                raise LineError(f"no {key!r}")
        mask = to_float_array(to_python(document["loss_mask"])) == 1
        fields = [*_arrays(document, mask), *_other_fields(document, mask)]
        return [build_record(document["step"], fields, path, full=full)]


def _other_fields(document: Mapping[str, Any], mask: np.ndarray) -> Iterator[tuple[str, Any]]:
    ids = to_float_array(document["token_ids"])
    yield "response_token_ids", ids[mask].tolist()
    yield "loss_mask", [1] * int(np.count_nonzero(mask))
    first = int(np.argmax(mask)) if mask.any() else len(mask)
    yield "prompt_token_ids", whole_numbers(ids[:first].tolist())
    for key in ("rank", "micro_step", "env_name"):
        if document.get(key) is not None:
            yield key, document[key]


def _arrays(document: Mapping[str, Any], mask: np.ndarray) -> Iterator[tuple[str, list[float]]]:
    """Yield the trainer's arrays, reduced to the tokens of the mask; others have their own names."""
    for key, name in _NAMES.items():
        if document.get(key) is None:
            continue
        values = to_float_array(document[key])
        if len(values) != len(mask):
            raise LineError(f"{key!r} has {len(values)} values for {len(mask)} tokens")
        yield name, values[mask].tolist()
    for key, value in document.items():
        if key not in _KNOWN and isinstance(value := to_python(value), list) and len(value) == len(mask):
            with suppress(TypeError, ValueError):  # a list of texts, or of lists
                yield key, to_float_array(value)[mask].tolist()


@dataclass(frozen=True)
class JoinedTraces:
    """Adapter for traces that adds what the trainer computed for the same tokens.

    Attributes
    ----------
    exports : str
        Folder with the step's complete exports.
    stamp : int
        Modification time of the marker file, which identifies the version of the exports.
    """

    exports: str
    stamp: int
    looks = PrimeRL.looks
    path_in_run = PrimeRL.path_in_run

    @property
    def name(self) -> str:
        """Name that is unique for these exports and their version."""
        return f"{PrimeRL.name} with {self.exports} of {self.stamp}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is an episode, as for traces alone."""
        return PrimeRL().accepts(path, document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read an episode's samples; those that were not trained on have no trainer arrays."""
        episode = {key: to_python(value) for key, value in document.items()}
        records = PrimeRL().read(episode, path, full=full)
        paths = [each.nodes for trace in traces_of(episode) for each in branches(trace.get("nodes", []))]
        for record, nodes in zip(records, paths, strict=True):
            ids = [token for node in nodes for token in node.get("token_ids") or ()]
            location = _locations(self.exports, self.stamp).get(_key(ids))
            if location is not None:
                mask = np.array([bool(each) for node in nodes for each in node.get("mask") or ()])
                record.arrays |= {name: np.array(v) for name, v in _arrays(_line_at(*location), mask)}
        return records


def join_exports(folder: AnyPath) -> Adapter:
    """Return the adapter of a step's traces: joined with the exports in a folder if they are complete."""
    try:
        return JoinedTraces(str(folder), (folder / MARKER).stat().st_mtime_ns)
    except OSError:
        return PrimeRL()


def _key(ids: list[int] | np.ndarray) -> int:
    return xxhash.xxh3_64_intdigest(np.asarray(ids, np.int64).tobytes())


@lru_cache(maxsize=8)
def _locations(folder: str, stamp: int) -> dict[int, tuple[str, int, int]]:
    """Return the location of each sequence in a folder by the hash of its tokens: file, offset, length."""
    locations: dict[int, tuple[str, int, int]] = {}
    for path in sorted(path_of(folder).glob("rank_*.jsonl")):
        offset = 0
        with stream(str(path)) as file:
            for line in file:
                try:
                    locations[_key(to_float_array(parse(line)["token_ids"]))] = str(path), offset, len(line)
                except (LineError, KeyError, ValueError):
                    pass  # an invalid line only means that one sample has no trainer arrays
                offset += len(line)
    return locations


def _line_at(path: str, offset: int, length: int) -> dict[str, Any]:
    return parse(read(path, length, offset))
