"""Names a format that a line almost has, and a writer that is newer than the tested one.

If a file has all but one of the keys of a format, it is named, because a run without it might be incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.sources.records.json_parser import to_python

#: A key, or several of which a line has one.
_Key = str | tuple[str, ...]

#: Keys of a line in BFCL's scores, which are read with its results: only failures are listed.
_FAILURE = frozenset({"id", "model_name", "test_category", "valid"})
_FAILURES = "lists only failures; open BFCL's result/{model}, which gets its scores from here"
#: Keys of a format's lines by the name that is shown. All others of a format must be there to name one.
_KEYS: tuple[tuple[str, tuple[_Key, ...]], ...] = (
    ("verl", ("input", "output", "score", "step")),
    ("NeMo-RL", ("content", ("filtered_rewards", "rewards"), "token_loss_mask")),
    ("ms-swift", (("gen_step", "step"), "prompt", "completion", "advantages")),
    ("ROLL", ("global_step", ("prompt", "messages"), "responses", "scores")),
    ("ROLL, agentic", ("global_step", "trajectory_data", "messages")),
    ("open-instruct", ("step", "prompt_tokens", "response_tokens")),
    ("AReaL", ("task_id", "prompt", "completion", "tail_version")),
    ("prime-rl", ("traces", "task", "run")),
    ("prime-rl's token exports", ("step", "token_ids", "loss_mask", "trainer_logprobs")),
    ("rLLM", ("trajectories", "task", "termination_reason", "is_correct")),
    ("SkyRL", ("input_prompt", "output_response", "score")),
    ("tinker-cookbook", ("split", "iteration", "total_reward", "steps", "group_idx", "traj_idx")),
    ("NeMo Gym", ("responses_create_params", "response", "reward")),
    ("miles", ("sample_index", "group_index", "status", "prompt", "messages")),
    ("miles", ("sample_index", "response_length", "total_length", "tokens")),
    ("ATIF", ("schema_version", "agent", "steps")),
    ("Harbor", ("trial_name", "task_name", "config", "agent_info")),
    ("Inspect", ("version", "status", "eval", "samples")),
    ("rlpanel", ("step", "prompt", "response", "reward")),
)
_MIN_KEYS = 2
#: Keys that other programs write as well: a line that has only these of a format may be anyone's.
_COMMON = frozenset(
    {"input", "output", "score", "step", "global_step", "content", "rewards", "prompt", "completion"}
    | {"response", "responses", "scores", "reward", "messages", "task_id", "task", "run", "agent", "steps"}
    | {"status", "config", "version", "samples", "eval", "tokens", "task_name", "is_correct", "split"}
    | {"trajectories", "advantages", "iteration", "total_reward"}
)
#: Keys beside those in `_KEYS` that only this writer gives.
_MARKS = {"verl": {"gts"}, "AReaL": {"head_version", "seqlen"}}


def lacking_key(document: Mapping[str, Any], *, sure: bool = False) -> str:
    """Return which key a line lacks to be one of a known format; empty if it looks like none.

    Parameters
    ----------
    document : mapping
        A parsed line that no adapter accepts.
    sure : bool
        Whether the line must have a key of the format that hardly another program writes.
    """
    found: list[tuple[int, str]] = []
    for name, keys in _KEYS:
        lacking = [key for key in keys if not _has(document, key)]
        if (
            len(lacking) == 1
            and len(keys) - 1 >= _MIN_KEYS
            and (not sure or _is_distinct(document, name, keys))
        ):
            key = lacking[0]
            wanted = repr(key) if isinstance(key, str) else " or ".join(map(repr, key))
            found.append((len(keys), f"looks like a log of {name}, but has no {wanted}"))
    if document.keys() >= _FAILURE:
        return _FAILURES
    return max(found, default=(0, ""))[1]


def _is_distinct(document: Mapping[str, Any], writer: str, keys: tuple[_Key, ...]) -> bool:
    """Return True if a line has a key that hardly another program writes, or keys of this format only."""
    names = {name for key in keys for name in ((key,) if isinstance(key, str) else key)}
    found = (names | _MARKS.get(writer, set())) & document.keys()
    return not _COMMON.issuperset(found) or (len(found) > _MIN_KEYS and len(found) == len(document))


def _has(document: Mapping[str, Any], key: _Key) -> bool:
    return key in document if isinstance(key, str) else any(each in document for each in key)


@dataclass(frozen=True)
class WriterVersion:
    """The newest version of a writer that was tested, and how a line names its own.

    Attributes
    ----------
    writer : str
    tested : str
        Numbers with dots.
    version_of : function
        Version that a line was written by; None if the line does not name it.
    """

    writer: str
    tested: str
    version_of: Callable[[Mapping[str, Any]], Any]


def _trace_version(document: Mapping[str, Any]) -> Any:
    """Return the version of verifiers in an episode of prime-rl."""
    traces = to_python(document.get("traces"))
    first = traces[0] if isinstance(traces, list) and traces else None
    library = first.get("verifiers") if isinstance(first, dict) else None
    return library.get("version") if isinstance(library, dict) else None


def _inspect_version(document: Mapping[str, Any]) -> Any:
    """Return the version of Inspect that wrote a log."""
    spec = to_python(document.get("eval"))
    packages = spec.get("packages") if isinstance(spec, dict) else None
    return packages.get("inspect_ai") if isinstance(packages, dict) else None


#: By the name of the adapter. A format whose lines do not name their writer's version is not listed.
VERSIONS: dict[str, WriterVersion] = {
    "prime-rl": WriterVersion("verifiers", "0.4.1", _trace_version),
    "ATIF": WriterVersion("ATIF", "1.8", lambda document: document.get("schema_version")),
    "Inspect": WriterVersion("Inspect", "0.3.285", _inspect_version),
    "tinker-cookbook": WriterVersion(
        "tinker-cookbook's summaries", "1", lambda document: document.get("schema_version")
    ),
}
_NUMBERS = re.compile(r"(?<![\d.])v?(\d{1,9}(?:\.\d{1,9}){0,3})")


def newer_version(adapter: str, document: Mapping[str, Any]) -> str:
    """Return a sentence about a line whose writer is newer than the tested one; empty if it is not.

    Parameters
    ----------
    adapter : str
        Name of the adapter that accepts the line.
    document : mapping
    """
    known = VERSIONS.get(adapter)
    if known is None:
        return ""
    match = _NUMBERS.search(str(known.version_of(document))[:80])
    if match is None or _parts(match[1]) <= _parts(known.tested):
        return ""
    return f"written by {known.writer} {match[1]}; the newest tested version is {known.tested}"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
