"""Reads trajectories in ATIF, the Agent Trajectory Interchange Format: one JSON document per trajectory.

Harbor's agents write ``agent/trajectory.json``, and NeMo Gym exports ``{task}-{rollout}.json``. A step is a
message of the system, the user or the agent; an agent's step may hold tool calls, what they returned, and the
tokens that the model sampled. Steps that were copied for context belong to the prompt. Embedded trajectories
of subagents are further samples of the same episode.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

_VERSION = re.compile(r"ATIF-v(\d+)\.(\d+)")
_KNOWN_MAJOR = "1"
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
#: Keys of a trajectory that are read in another way; further ones become columns if they are short.
_OWN = frozenset(
    {"schema_version", "agent", "steps", "final_metrics", "subagent_trajectories", "notes", "extra"}
)
_TOTALS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}

Field = tuple[str, Any]
Fields = Iterator[Field]
#: The tokens of one call of the model, with the keys of a step's ``metrics``.
Call = Mapping[str, Any]


class Atif:
    """Adapter for trajectories without a result beside them."""

    name = "ATIF"
    looks = "trajectory*.json or {task}-{rollout}.json with 'schema_version', 'agent' and 'steps' (ATIF)"
    document_name = re.compile(r"trajectory.*\.json|\d{1,15}-\d{1,15}\.json")
    lacks_steps = True
    path_in_run = re.compile(
        r"(?<![^/])(?:step_\d+/)?[^/]+/(?:steps/[^/]+/)?agent/[^/]+\.json$|(?<![^/])step_\d+/[^/]+\.json$"
    )

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a trajectory of any version of ATIF."""
        return "steps" in document and str(document.get("schema_version")).startswith("ATIF-")

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectory and those of its subagents."""
        trajectory = {key: to_python(value) for key, value in document.items()}
        shared = [("split", "eval"), *_exported(trajectory)]
        return trajectory_records(trajectory, shared, 0, path, full=full)


def trajectory_records(
    trajectory: Mapping[str, Any],
    shared: Sequence[Field],
    step: int,
    path: str,
    *,
    full: bool,
    outcome: Sequence[Field] = (),
    calls: Sequence[Call] = (),
) -> list[Record]:
    """Return the records of a trajectory and of the subagents in it.

    Parameters
    ----------
    trajectory : mapping
    shared : sequence of Field
        Fields of all records.
    step : int
    path : str
    full : bool
    outcome : sequence of Field
        Fields of the trajectory alone, such as its reward.
    calls : sequence of Call
        Tokens of the trajectory that were logged elsewhere; used if its steps have none.

    Raises
    ------
    LineError
        If its version is not known, or it has no list of steps.
    """
    subagents = list(_subagents(trajectory))
    episode = trajectory.get("session_id") or trajectory.get("trajectory_id")
    if subagents and episode is not None and "episode" not in dict(shared):
        shared = [*shared, ("episode", episode)]
    records = []
    for number, each in enumerate((trajectory, *(each for each, _ in subagents))):
        own = [*shared, *(outcome if number == 0 else ())]
        if subagents:
            own = [*own, ("branch", _id(each, number))]
        if number:
            at = subagents[number - 1][1]
            above = trajectory if at == 0 else subagents[at - 1][0]
            own += [("parent", _id(above, at)), ("branch_kind", "sub-agent")]
            own += [("links", found) for found in [_calls_of(above, each, _id(above, at))] if found]
        used = calls if number == 0 else ()
        records.append(_record(each, own, step, path, used, full=full))
    return records


def _subagents(trajectory: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the embedded trajectories at any depth, each with the number of the one that embeds it.

    The trajectory itself has the number 0, and those in it have the next ones in their order.
    """
    waiting = [(trajectory, 0)]
    number = 0
    while waiting:
        above, at = waiting.pop(0)
        for each in above.get("subagent_trajectories") or ():
            if not isinstance(each, Mapping):
                raise LineError("'subagent_trajectories' holds something that is not an object")
            number += 1
            yield each, at
            waiting.append((each, number))


def _id(trajectory: Mapping[str, Any], number: int) -> str:
    """Return the id of a trajectory, or else its number in the document."""
    found = trajectory.get("trajectory_id") or (trajectory.get("session_id") if number == 0 else None)
    return str(number if found is None else found)


def _calls_of(above: Mapping[str, Any], below: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the turns of a trajectory whose observations refer to a trajectory in it (since ATIF 1.5)."""
    found, turn = [], 0
    steps = above.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, Mapping):
            continue
        turn += step.get("source") == "agent"
        observation = step.get("observation")
        for result in (observation.get("results") or ()) if isinstance(observation, Mapping) else ():
            refs = (result.get("subagent_trajectory_ref") or ()) if isinstance(result, Mapping) else ()
            for ref in refs if isinstance(refs, list) else [refs]:
                if isinstance(ref, Mapping) and _refers(ref, below):
                    found.append({"type": "subagent_call", "from": name, "turn": turn})
    return found


def _refers(ref: Mapping[str, Any], trajectory: Mapping[str, Any]) -> bool:
    known = [key for key in ("trajectory_id", "session_id") if ref.get(key) is not None]
    return bool(known) and all(ref[key] == trajectory.get(key) for key in known[:1])


def _record(
    trajectory: Mapping[str, Any],
    shared: Sequence[Field],
    step: int,
    path: str,
    calls: Sequence[Call],
    *,
    full: bool,
) -> Record:
    steps = _steps(trajectory)
    sampled = [each for each in steps if _is_sampled(each)]
    logged = [each.get("metrics") or {} for each in sampled]
    fields = [*_timing(steps), *shared, *_agent(trajectory), *_conversation(steps, sampled, path)]
    fields += [(key, value) for key, value in trajectory.items() if key not in _OWN]
    fields += _totals(trajectory)
    used = logged if any(call.get("completion_token_ids") for call in logged) else calls
    record = build_record(step, [*fields, *_tokens(used)], path, full=full)
    if math.isfinite(count := _completion_tokens(trajectory, logged)):
        record.numbers.setdefault("response_tokens", count)
    return record


def _steps(trajectory: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps of a trajectory; LineError if its version is not known or it has none."""
    version = str(trajectory.get("schema_version"))
    match = _VERSION.fullmatch(version)
    if match is None or match[1] != _KNOWN_MAJOR:
        raise LineError(f"ATIF: 'schema_version' is {version[:40]!r}; known are ATIF-v1.0 and later of v1")
    steps = trajectory.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise LineError("ATIF: 'steps' is not a list of objects")
    for step in steps:
        if step.get("source") not in _ROLES:
            raise LineError(f"ATIF: the 'source' of a step is {str(step.get('source'))[:40]!r}")
    return steps


def _is_sampled(step: Mapping[str, Any]) -> bool:
    """Return True if the model wrote a step of this trajectory, not of one before, and no program did."""
    is_agent = step["source"] == "agent" and step.get("llm_call_count") != 0
    return is_agent and not step.get("is_copied_context")


def _agent(trajectory: Mapping[str, Any]) -> Fields:
    agent = trajectory.get("agent")
    if isinstance(agent, Mapping):
        yield "agent", agent.get("name")
        yield "model", agent.get("model_name")


def _conversation(
    steps: Sequence[Mapping[str, Any]], sampled: Sequence[Mapping[str, Any]], path: str
) -> Fields:
    """Yield the messages and how many of them come before the first that the model wrote here."""
    messages: list[dict[str, Any]] = []
    before = -1
    folder = path.rpartition("/")[0]
    for step in steps:
        if sampled and step is sampled[0]:
            before = len(messages)
        messages.extend(_messages(step, folder))
    yield "messages", messages
    yield "prompt_messages", len(messages) if before < 0 else before


def _messages(step: Mapping[str, Any], folder: str) -> Iterator[dict[str, Any]]:
    """Yield the message of a step, then what its tools or the environment returned."""
    calls = [
        {
            "id": call.get("tool_call_id"),
            "name": call.get("function_name"),
            "arguments": call.get("arguments"),
        }
        for call in step.get("tool_calls") or ()
        if isinstance(call, Mapping)
    ]
    deterministic = step["source"] == "agent" and step.get("llm_call_count") == 0
    message = {
        "role": "environment" if deterministic else _ROLES[step["source"]],
        "content": _content(step.get("message"), folder),
        "reasoning_content": step.get("reasoning_content"),
    }
    stamp = {"timestamp": step["timestamp"]} if step.get("timestamp") is not None else {}
    yield message | ({"tool_calls": calls} if calls else {}) | stamp
    observation = step.get("observation")
    for result in (observation.get("results") or ()) if isinstance(observation, Mapping) else ():
        if isinstance(result, Mapping):
            source = result.get("source_call_id")
            content = _content(result.get("content"), folder)
            role = "environment" if source is None else "tool"
            yield {"role": role, "content": content} | ({"tool_call_id": source} if source else {})


def _content(content: Any, folder: str) -> Any:
    """Return content with the places of media below the run; they are logged beside the trajectory."""
    if not isinstance(content, list):
        return content
    return [_part(part, folder) if isinstance(part, Mapping) else part for part in content]


def _part(part: Mapping[str, Any], folder: str) -> Mapping[str, Any]:
    source = part.get("source")
    if not isinstance(source, Mapping) or not folder:
        return part
    place = source.get("path")
    if not isinstance(place, str) or place.startswith("/") or ":" in place:
        return part
    return {**part, "source": {**source, "path": f"{folder}/{place}"}}


def _tokens(calls: Sequence[Call]) -> Fields:
    """Yield the sampled tokens of all turns, and those between them if all prompts are logged.

    Nothing is yielded if a turn's tokens are missing, because the others would look like the whole response.
    """
    written = [_list(call, "completion_token_ids") for call in calls]
    if not calls or not all(written):
        return
    between = _between(calls)
    ids: list[Any] = []
    mask: list[int] = []
    logprobs: list[Any] = []
    for call, own, added in zip(calls, written, between or [[]] * len(calls), strict=True):
        scored = _list(call, "logprobs")
        ids += [*added, *own]
        mask += [0] * len(added) + [1] * len(own)
        logprobs += [math.nan] * len(added)
        logprobs += scored if len(scored) == len(own) else [math.nan] * len(own)
    yield "response_token_ids", ids
    if between and any(between):
        yield "loss_mask", mask
    if any(each == each for each in logprobs):
        yield "rollout_logprobs", logprobs
    if calls[0].get("prompt_token_ids"):
        yield "prompt_token_ids", calls[0]["prompt_token_ids"]


def _between(calls: Sequence[Call]) -> list[list[Any]] | None:
    """Return the environment's tokens before each turn; None unless each prompt continues what was before."""
    seen = _list(calls[0], "prompt_token_ids")
    if not seen:
        return None
    added: list[list[Any]] = []
    for call in calls:
        prompt = _list(call, "prompt_token_ids")
        if prompt[: len(seen)] != seen:
            return None
        added.append(prompt[len(seen) :])
        seen = [*prompt, *call["completion_token_ids"]]
    return added


def _list(call: Call, key: str) -> list[Any]:
    """Return a list of a call; empty if it was not logged."""
    value = call.get(key)
    return value if isinstance(value, list) else []


def _totals(trajectory: Mapping[str, Any]) -> Fields:
    totals = trajectory.get("final_metrics")
    for key, value in totals.items() if isinstance(totals, Mapping) else ():
        if key in _TOTALS:
            yield f"metrics/{_TOTALS[key]}", value
        elif isinstance(value, int | float) and key not in ("total_completion_tokens", "total_steps"):
            yield f"metrics/{key}", value


def _completion_tokens(trajectory: Mapping[str, Any], logged: Sequence[Call]) -> float:
    """Return how many tokens the model wrote, as counted by the steps or in total; NaN if unknown."""
    counts = [call.get("completion_tokens") for call in logged]
    numbers = [each for each in counts if isinstance(each, int | float)]
    if counts and len(numbers) == len(counts):
        return float(sum(numbers))
    totals = trajectory.get("final_metrics")
    total = totals.get("total_completion_tokens") if isinstance(totals, Mapping) else None
    return float(total) if isinstance(total, int | float) else math.nan


def _timing(steps: Sequence[Mapping[str, Any]]) -> Fields:
    """Yield the time from the first step to the last, if they have times."""
    times = [seconds for step in steps if (seconds := unix_seconds(step.get("timestamp"))) is not None]
    if len(times) > 1:
        yield "timing", {"start": times[0], "total": times[-1] - times[0]}


def _exported(trajectory: Mapping[str, Any]) -> Fields:
    """Yield the task of a trajectory that NeMo Gym exported."""
    extra = trajectory.get("extra")
    own = extra.get("rlpanel") if isinstance(extra, Mapping) else None
    if isinstance(own, Mapping):  # a sample that rlpanel exported
        yield from ((key, value) for key, value in own.items() if key != "uid")
    gym = extra.get("nemo_gym") if isinstance(extra, Mapping) else None
    source = gym.get("source") if isinstance(gym, Mapping) else None
    if isinstance(source, Mapping):
        yield "group", source.get("task_index")
        yield "rollout_index", source.get("rollout_index")
