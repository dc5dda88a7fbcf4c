"""Reads verifiers' evaluations from before its traces: ``results.jsonl``, with ``metadata.json`` beside it.

prime-rl wrote the same lines to ``step_{N}/train_rollouts.jsonl``. Newer versions write ``traces.jsonl``, see
`prime.prime_rl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.files.file_access import path_of, read_small
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Adapter, Record

Fields = Iterator[tuple[str, Any]]

_METADATA, _MAX_BYTES = "metadata.json", 4 << 20
#: Keys of a rollout that are read in another way than as a column.
_OWN = frozenset(
    {"example_id", "id", "prompt", "completion", "answer", "reward", "metrics", "timing", "error", "task"}
    | {"is_truncated", "stop_condition", "token_usage", "generation_ms", "scoring_ms", "total_ms"}
)
#: Keys under which programs that copy these lines add the step of training.
_STEPS = ("step", "global_step", "training_step", "train_step", "step_index")
_PHASES = {"setup": "environment", "generation": "generation", "scoring": "score"}
_PHASES |= {"generation_ms": "generation", "scoring_ms": "score", "total_ms": "total", "total": "total"}


@dataclass(frozen=True)
class VerifiersResults:
    """Adapter for verifiers' results.

    Attributes
    ----------
    model, env : str
        From the file beside; empty if there is none.
    """

    model: str = ""
    env: str = ""
    lacks_steps = True
    looks = "results.jsonl with 'example_id', 'prompt', 'completion', 'reward' (verifiers)"

    @property
    def name(self) -> str:
        """Name that is unique for the content of the file beside."""
        return f"verifiers' results of {self.model} in {self.env}" if self.model else "verifiers' results"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if a line is a rollout."""
        named = "example_id" in document or {"id", "task", "generation_ms"} <= document.keys()
        return named and {"prompt", "completion", "reward"} <= document.keys()

    def for_file(self, path: str) -> Adapter:
        """Return the adapter of a file with what the file beside it says."""
        metadata = path_of(path).parent / _METADATA
        try:
            return _described(str(metadata), metadata.stat().st_mtime_ns)
        except OSError:
            return VerifiersResults()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the rollout."""
        rollout = {key: to_python(value) for key, value in document.items()}
        shared = [("model", self.model or None), ("env", self.env or rollout.get("task"))]
        if not path.rpartition("/")[2].startswith("train"):
            shared.append(("split", "eval"))
        logged = (rollout.pop(key) for key in _STEPS if isinstance(rollout.get(key), int | float | str))
        record = build_record(next(logged, 0), [*shared, *_fields(rollout)], path, full=full)
        usage = rollout.get("token_usage")
        count = usage.get("output_tokens") if isinstance(usage, Mapping) else None
        if isinstance(count, int | float):
            record.numbers.setdefault("response_tokens", float(count))
        return [record]


def _fields(rollout: Mapping[str, Any]) -> Fields:
    yield "group", rollout.get("example_id", rollout.get("id"))
    yield "prompt", rollout["prompt"]
    yield "response", rollout["completion"]
    yield "reward", rollout["reward"]
    yield "ground_truth", rollout.get("answer") or None
    metrics = rollout.get("metrics")
    for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
        yield f"metrics/{name}", value
    if seconds := _seconds(rollout):
        yield "timing", seconds
    truncated, error = rollout.get("is_truncated"), rollout.get("error")
    if truncated is not None:
        yield "truncated", int(bool(truncated))
    yield "finish_reason", rollout.get("stop_condition")
    # One that failed counts with its reward, as for verifiers.
    yield "status", "truncated" if truncated else "ok"
    if error:
        told = error.get("error_chain_str") or error.get("error") if isinstance(error, Mapping) else error
        yield "status_reason", str(told)[:LABEL_MAX]
    repeated = _OWN | (metrics.keys() if isinstance(metrics, Mapping) else set())
    yield from ((key, value) for key, value in rollout.items() if key not in repeated)


def _seconds(rollout: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each phase; they were milliseconds before 2026."""
    timing = rollout.get("timing")
    logged = {**rollout, **timing} if isinstance(timing, Mapping) else rollout
    seconds: dict[str, float] = {}
    for key, phase in _PHASES.items():
        value = logged.get(key)
        value = value.get("duration") if isinstance(value, Mapping) else value
        if isinstance(value, int | float):
            seconds[phase] = value / 1000 if key.endswith("_ms") else value
    if isinstance(start := logged.get("start_time"), int | float):
        seconds["start"] = start
    return seconds


@lru_cache(maxsize=256)
def _described(path: str, stamp: int) -> VerifiersResults:
    try:
        metadata = parse(read_small(path_of(path), _MAX_BYTES).data.strip())
    except (OSError, LineError):
        return VerifiersResults()
    env = metadata.get("env_id") or metadata.get("env")
    model = metadata.get("model")
    known = isinstance(model, str) and isinstance(env, str)
    return VerifiersResults(str(model), str(env)) if known else VerifiersResults()
