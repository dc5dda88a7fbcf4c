"""Reads the samples of Inspect's logs, ``.eval`` and ``.json``.

A log holds one task by one model. Each sample was run once per epoch: the epochs of a sample are a group.
``messages`` is the whole conversation; images in it are named by their hash and are in ``attachments``. A
score is a number, a text such as C (correct), I (incorrect), P (partial) or N (no answer), or an object of
these. ``NaN`` marks a score that could not be given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import LISTS, to_python
from rlpanel.sources.records.record_types import Record

_ATTACHMENT = "attachment://"
_KNOWN_VERSIONS = (1, 2)
#: Values of texts, as Inspect's `value_to_float` converts them.
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_TIME, _LENGTH = frozenset({"time", "working"}), frozenset({"token", "context"})
_LIMITS = _LENGTH | {"message", "turn", "cost"}
_CUT = frozenset({"max_tokens", "model_length"})
#: Keys of a sample that are not read. The events are many times as long as the messages.
_UNREAD = frozenset(
    {"events", "events_data", "timelines", "transcript", "store", "files", "setup", "sandbox", "uuid"}
    | {"error_retries", "model_fallbacks", "description"}
)
#: Keys of a sample that are read in another way than as a column.
_OWN = frozenset(
    {"id", "input", "target", "choices", "messages", "output", "scores", "score", "metadata", "limit"}
    | {"error", "model_usage", "role_usage", "started_at", "completed_at", "total_time", "working_time"}
    | {"attachments", "invalidation", "turn_count"}
)

Fields = Iterator[tuple[str, Any]]
Sample = Mapping[str, Any]


class InspectLog:
    """Adapter for Inspect's logs."""

    name = "Inspect"
    looks = "*.eval, or {time}_{task}_{id}.json with 'eval' and 'samples' (Inspect)"
    document_name = re.compile(r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d.*\.json")
    lacks_steps = True
    path_in_run = re.compile(r"(?<![^/])step_\d+/[^/]+\.(?:eval|json)$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a log with samples; Inspect can leave them out."""
        return {"version", "status", "eval", "samples"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read all samples."""
        version, spec = document.get("version"), to_python(document.get("eval"))
        if version not in _KNOWN_VERSIONS:
            shown = str(to_python(version))[:40]
            raise LineError(f"Inspect: the log's 'version' is {shown}; known are 1 and 2")
        if not isinstance(spec, Mapping):
            raise LineError("Inspect: 'eval' is not an object")
        samples = list(_samples(document.get("samples")))
        for key in ("id", "epoch"):
            if any(sample.get(key) is None for sample in samples):
                raise LineError(f"Inspect: a sample has no {key!r}")
        step, records = 0, []
        for sample in samples:
            record = build_record(step, _fields(sample, spec), path, full=full)
            if (tokens := _written_tokens(sample, spec)) is not None:
                record.numbers.setdefault("response_tokens", tokens)
            records.append(record)
        return records


def _samples(logged: Any) -> Iterator[Sample]:
    """Yield the samples without what is not read of them, which is most of a log."""
    if logged is not None and type(logged) not in LISTS:
        raise LineError("Inspect: 'samples' is not a list")
    for each in logged or ():
        if not hasattr(each, "items"):
            raise LineError("Inspect: 'samples' holds something that is not an object")
        yield {key: to_python(value) for key, value in each.items() if key not in _UNREAD}


def _fields(sample: Sample, spec: Mapping[str, Any]) -> Fields:
    yield "split", "eval"
    task, model = spec.get("task"), spec.get("model")
    # Logs of a task by other models, or with other options, have another id; a retry keeps it.
    place = "-".join(str(each) for each in (task, str(spec.get("task_id") or "")[:8]) if each)
    yield "group", f"{place}:{sample['id']}"
    yield "env", task
    yield "model", model
    yield "sample_id", str(sample["id"])
    target = sample.get("target")
    yield "ground_truth", ", ".join(map(str, target)) if isinstance(target, list) else target
    scores = list(_scores(sample, spec))
    yield from _conversation(sample)
    yield from scores
    yield from _outcome(sample, rewarded=any(name == "reward" for name, _ in scores))
    for key, value in _own_usage(sample, spec).items():
        if isinstance(value, int | float):
            yield f"metrics/{key}", value
    yield from _timing(sample)
    metadata = sample.get("metadata")
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        if isinstance(value, int | float | str):
            yield f"metadata/{key}", value
    for key, value in sample.items():
        if key not in _OWN:
            yield key, value


def _conversation(sample: Sample) -> Fields:
    """Yield the messages, and how many of them the model did not write: examples are in the input, too."""
    logged = sample.get("messages") or sample.get("input")
    if isinstance(logged, str):
        yield "prompt", logged
        return
    if not isinstance(logged, list) or not all(isinstance(each, Mapping) for each in logged):
        return
    attachments = sample.get("attachments")
    attachments = attachments if isinstance(attachments, Mapping) else {}
    messages = [_message(each, attachments) for each in logged]
    written = [
        number
        for number, each in enumerate(logged)
        if each.get("role") == "assistant" and each.get("source") != "input"
    ]
    yield "messages", messages
    yield "prompt_messages", written[0] if written else len(messages)
    if len(written) == 1:
        yield from _tokens(sample)


def _message(logged: Mapping[str, Any], attachments: Mapping[str, Any]) -> dict[str, Any]:
    content = logged.get("content")
    parts = content if isinstance(content, list) else [content]
    reasoning = [_reasoning(part) for part in parts if _is_reasoning(part)]
    message: dict[str, Any] = {
        "role": logged.get("role"),
        "content": [_part(part, attachments) for part in parts if not _is_reasoning(part)],
    }
    if reasoning:
        message["reasoning_content"] = "\n".join(filter(None, reasoning))
    calls = logged.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
            for call in calls
            if isinstance(call, Mapping)
        ]
    if logged.get("role") == "tool":
        message |= {"tool_call_id": logged.get("tool_call_id"), "name": logged.get("function")}
        error = logged.get("error")
        message["is_error"] = error is not None
        if isinstance(error, Mapping) and not any(message["content"]):
            message["content"] = [error.get("message")]
    return message


def _is_reasoning(part: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(part, Mapping) and part.get("type") == "reasoning"


def _reasoning(part: Mapping[str, Any]) -> str:
    """Return the text of reasoning: the summary of one that the provider hides."""
    hidden = part.get("redacted")
    return str((part.get("summary") if hidden else part.get("reasoning")) or part.get("summary") or "")


def _part(part: Any, attachments: Mapping[str, Any]) -> Any:
    """Return a part of a message with the media that it names."""
    if isinstance(part, str):
        return _resolved(part, attachments)
    if not isinstance(part, Mapping):
        return part
    return {key: _resolved(value, attachments) for key, value in part.items()}


def _resolved(value: Any, attachments: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or not value.startswith(_ATTACHMENT):
        return value
    return attachments.get(value.removeprefix(_ATTACHMENT), value)


def _tokens(sample: Sample) -> Fields:
    """Yield the tokens of the only answer with their logprobs; those of earlier turns are not kept."""
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    logprobs = choice.get("logprobs") if isinstance(choice, Mapping) else None
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if isinstance(tokens, list) and tokens and all(isinstance(each, Mapping) for each in tokens):
        yield "response_tokens", [each.get("token") for each in tokens]
        yield "rollout_logprobs", [each.get("logprob") for each in tokens]


def _scores(sample: Sample, spec: Mapping[str, Any]) -> Fields:
    """Yield the reward, which is the first scorer's or that of the headline metric, and all scores."""
    scores = sample.get("scores")
    if not isinstance(scores, Mapping):
        scores = {"score": sample["score"]} if isinstance(sample.get("score"), Mapping) else {}
    values = {name: score.get("value") for name, score in scores.items() if isinstance(score, Mapping)}
    headline = spec.get("headline_metric")
    wanted = headline.get("scorer") if isinstance(headline, Mapping) else None
    first = wanted if wanted in values else next(iter(values), None)
    parts = dict(_parts(values))
    if first in parts and math.isfinite(parts[first]):
        yield "reward", parts[first]
    if len(parts) > 1 or first not in parts:
        yield "rewards", {name: number for name, number in parts.items() if math.isfinite(number)}
    for name, value in values.items():
        if isinstance(value, str) and name not in parts:
            yield f"score/{name}", value


def _parts(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of scores, those of an object with its key after the scorer's name."""
    for name, value in values.items():
        below = value.items() if isinstance(value, Mapping) else None
        pairs = [(name, value)] if below is None else [(f"{name}/{key}", part) for key, part in below]
        for key, part in pairs:
            number = _number(part)
            if number is not None:
                yield key, number


def _number(value: Any) -> float | None:
    """Return the number of a score; None if it is none, such as the letter of a choice."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    if value in _VALUES:
        return _VALUES[value]
    try:
        number = _WORDS.get(value.lower(), math.nan)
        return float(value) if math.isnan(number) else number
    except ValueError:
        return None


def _outcome(sample: Sample, *, rewarded: bool) -> Fields:
    """Yield how the sample ended. One that was scored in spite of an error counts, as for Inspect."""
    limit, error = sample.get("limit"), sample.get("error")
    kind = str(limit.get("type")) if isinstance(limit, Mapping) else ""
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else {}
    stop = choice.get("stop_reason") if isinstance(choice, Mapping) else None
    yield "finish_reason", kind or stop
    yield "truncated", int(kind in _LENGTH or (not kind and stop in _CUT))
    status, reason = "ok", ""
    if sample.get("invalidation"):
        status, reason = "discarded", "invalidated"
    elif error:
        status = "ok" if rewarded else "environment_error"
        reason = str(error.get("message") if isinstance(error, Mapping) else error)
    elif kind:
        status = "timeout" if kind in _TIME else "truncated" if kind in _LIMITS else "ok"
        reason = str(limit.get("reason") or f"limit of {kind}") if isinstance(limit, Mapping) else ""
    yield "status", status
    if reason:
        yield "status_reason", " ".join(reason.split())[:LABEL_MAX]


def _own_usage(sample: Sample, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tokens that the evaluated model used, also those as a grader if it is the same model."""
    usage, model = sample.get("model_usage"), spec.get("model")
    own = usage.get(model) if isinstance(usage, Mapping) and isinstance(model, str) else None
    return own if isinstance(own, Mapping) else {}


def _written_tokens(sample: Sample, spec: Mapping[str, Any]) -> float | None:
    """Return how many tokens the model wrote; None if roles such as a grader wrote some of those counted."""
    count = _own_usage(sample, spec).get("output_tokens")
    return float(count) if isinstance(count, int | float) and not sample.get("role_usage") else None


def _timing(sample: Sample) -> Fields:
    total, start = sample.get("total_time"), unix_seconds(sample.get("started_at"))
    seconds = {"total": total} if isinstance(total, int | float) else {}
    working = sample.get("working_time")
    if seconds and isinstance(working, int | float) and isinstance(total, int | float):
        seconds["queue"] = max(total - working, 0.0)  # waiting for the model's or the machine's limits
    if seconds or start is not None:
        yield "timing", seconds | ({"start": start} if start is not None else {})
