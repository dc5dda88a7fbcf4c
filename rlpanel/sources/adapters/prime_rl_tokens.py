"""prime-rl's token exports: ``token_exports/step_{N}/rank_{R}.jsonl``, a line a sequence, and no text.

A step's files are whole when ``STABLE`` lies beside them; after a restart they are truncated and written
again. From then on they are joined to the step's traces, on the ids of all tokens; without traces they are
shown as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash

from rlpanel.errors import LineError
from rlpanel.sources.adapters.prime_rl import PrimeRL, branches
from rlpanel.sources.files.files import AnyPath, path_of, read, stream
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import floats, parse, plain
from rlpanel.sources.records.record_types import Adapter, Record

MARKER = "STABLE"
_NAMES = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "rollout_logprobs",
    "advantages": "advantages",
    "entropy": "entropy",
}


class PrimeTokens:
    """Sequences as the trainer saw them."""

    name = "prime-rl tokens"
    looks = "token_exports/step_{N}/rank_{R}.jsonl with 'token_ids' and 'trainer_logprobs' (prime-rl)"
    path_in_run = re.compile(r"(?:token_exports/)?(?:step_\d+/)?rank_\d+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line has the export's keys."""
        return {"step", "token_ids", "loss_mask", "trainer_logprobs"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The line's one sample: the tokens that took part in the loss."""
        for key in ("step", "token_ids", "loss_mask"):
            if key not in document:
                raise LineError(f"no {key!r}")
        mask = floats(plain(document["loss_mask"])) == 1
        fields = [*_arrays(document, mask), *_rest(document, mask)]
        return [record_of(document["step"], fields, path, full=full)]


def _rest(document: Mapping[str, Any], mask: np.ndarray) -> Iterator[tuple[str, Any]]:
    ids = floats(document["token_ids"])
    yield "response_token_ids", ids[mask].tolist()
    first = int(np.argmax(mask)) if mask.any() else len(mask)
    yield "prompt_token_ids", ids[:first].astype(int).tolist()
    for key in ("rank", "micro_step", "env_name"):
        if document.get(key) is not None:
            yield key, document[key]


def _arrays(document: Mapping[str, Any], mask: np.ndarray) -> Iterator[tuple[str, list[float]]]:
    """The trainer's numbers at the places of a mask."""
    for key, name in _NAMES.items():
        if document.get(key) is None:
            continue
        values = floats(document[key])
        if len(values) != len(mask):
            raise LineError(f"{key!r} has {len(values)} values for {len(mask)} tokens")
        yield name, values[mask].tolist()


@dataclass(frozen=True)
class Joined:
    """Traces with what the trainer computed for the same tokens.

    Attributes
    ----------
    exports : str
        The step's folder of exports, whole.
    stamp : int
        Tells one writing of it from another.
    """

    exports: str
    stamp: int
    looks = PrimeRL.looks
    path_in_run = PrimeRL.path_in_run

    @property
    def name(self) -> str:
        """Tells these rows from those without the trainer's numbers."""
        return f"{PrimeRL.name} with {self.exports} of {self.stamp}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """As traces alone."""
        return PrimeRL().accepts(path, document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The episode's samples; those that were not trained on stay without the trainer's numbers."""
        episode = {key: plain(value) for key, value in document.items()}
        records = PrimeRL().read(episode, path, full=full)
        ways = [way for trace in episode["traces"] for way in branches(trace.get("nodes", []))]
        for record, way in zip(records, ways, strict=True):
            ids = [token for node in way for token in node.get("token_ids") or ()]
            found = _lines(self.exports, self.stamp).get(_key(ids))
            if found is not None:
                own = np.array([bool(each) for node in way for each in node.get("mask") or ()])
                record.arrays |= {name: np.array(v) for name, v in _arrays(_line_at(*found), own)}
        return records


def joined(folder: AnyPath) -> Adapter:
    """The dialect of a step's traces: with what lies in the folder of its exports, where that is whole."""
    try:
        return Joined(str(folder), (folder / MARKER).stat().st_mtime_ns)
    except OSError:
        return PrimeRL()


def _key(ids: list[int] | np.ndarray) -> int:
    return xxhash.xxh3_64_intdigest(np.asarray(ids, np.int64).tobytes())


@lru_cache(maxsize=8)
def _lines(folder: str, stamp: int) -> dict[int, tuple[str, int, int]]:
    """Where each sequence of a folder stands, by its tokens: file, offset, length."""
    found: dict[int, tuple[str, int, int]] = {}
    for path in sorted(path_of(folder).glob("rank_*.jsonl")):
        offset = 0
        with stream(str(path)) as file:
            for line in file:
                try:
                    found[_key(floats(parse(line)["token_ids"]))] = str(path), offset, len(line)
                except (LineError, KeyError, ValueError):
                    pass  # a line of no use is one sample without the trainer's numbers
                offset += len(line)
    return found


def _line_at(path: str, offset: int, length: int) -> dict[str, Any]:
    return parse(read(path, length, offset))
