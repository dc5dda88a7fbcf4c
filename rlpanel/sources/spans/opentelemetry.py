"""Reads calls of models from OpenTelemetry's spans, as OTLP JSON or as the SDK prints them.

The attributes are those of the GenAI conventions, of OpenLLMetry, which numbers them, or of OpenInference. A
call is a sample, and the calls of a trace are one episode. Other spans, such as tools and requests, are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.tool_calls import first_of, parsed_text
from rlpanel.sources.spans.call_tree import (
    build_call,
    exchange_fields,
    read_exchange,
    score_fields,
)

Attributes = Mapping[str, Any]

#: Attribute of each column, the newest convention first.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "agent": ("gen_ai.agent.name",),
    "response_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
    ),
    "prompt_tokens_used": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
    ),
}
_ASKED = ("gen_ai.input.messages", "traceloop.entity.input", "input.value")
_ANSWERED = ("gen_ai.output.messages", "traceloop.entity.output", "output.value")
#: Numbered attributes: their beginning, and what follows the number.
_NUMBERED_ASKED = ("gen_ai.prompt", "llm.input_messages")
_NUMBERED_ANSWERED = ("gen_ai.completion", "llm.output_messages")
#: Beginnings of the attributes that hold the texts of a call.
_TEXTS = (
    *("gen_ai.input.messages", "gen_ai.output.messages"),
    *(f"{start}.0." for start in (*_NUMBERED_ASKED, *_NUMBERED_ANSWERED)),
)
_CALLS = ("chat", "text_completion", "generate_content")
_NUMBERED = re.compile(r"\.(\d{1,4})\.(?:message\.)?(.+)")
_EVALUATION = "gen_ai.evaluation.result"


class OpenTelemetry:
    """Adapter for spans of OpenTelemetry."""

    name = "OpenTelemetry"
    lacks_steps = True
    looks = "*.jsonl or *.json with 'resourceSpans', or spans with 'context' and 'attributes' (OpenTelemetry)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line holds spans; most batches of an agent hold a call of a model."""
        is_batch = not {"resourceSpans", "resource_spans"}.isdisjoint(document)
        return is_batch or {"context", "attributes", "start_time", "end_time"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the calls of models in the line; a line without any has no sample."""
        batch = {key: to_python(value) for key, value in document.items()}
        return [
            build_call(_fields(span, attributes), path, full=full)
            for span in _spans(batch)
            if _is_call(attributes := _attributes(span.get("attributes")))
        ]


def _spans(batch: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the spans of a batch, or the only span of the SDK's own JSON."""
    resources = batch.get("resourceSpans") or batch.get("resource_spans")
    if not isinstance(resources, list):
        yield batch
        return
    for resource in resources:
        for scope in (resource.get("scopeSpans") or resource.get("scope_spans") or ()) if resource else ():
            yield from (span for span in scope.get("spans") or () if isinstance(span, Mapping))


def _attributes(value: Any) -> dict[str, Any]:
    """Return attributes by name; OTLP writes them as a list of keys and typed values."""
    if isinstance(value, Mapping):
        return dict(value)
    items = value if isinstance(value, list) else ()
    return {item["key"]: _typed(item.get("value")) for item in items if isinstance(item, Mapping)}


def _typed(value: Any) -> Any:
    """Return the value of OTLP's ``AnyValue``; its integers are texts."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, own = next(iter(value.items()))
    match kind.lower().replace("_", ""):
        case "intvalue":
            return int(own)
        case "arrayvalue":
            return [_typed(each) for each in own.get("values") or ()]
        case "kvlistvalue":
            return _attributes(own.get("values"))
    return own


def _is_call(attributes: Attributes) -> bool:
    """Return True if a span is a call of a model whose texts were logged."""
    kind = attributes.get("gen_ai.operation.name") or attributes.get("llm.request.type")
    if kind is None:
        kind = "chat" if attributes.get("openinference.span.kind", "LLM") == "LLM" else "other"
    return kind in _CALLS and any(key.startswith(_TEXTS) for key in attributes)


def _fields(span: Mapping[str, Any], attributes: Attributes) -> Iterator[tuple[str, Any]]:
    asked = first_of(attributes, _ASKED[:1]) or _numbered(attributes, _NUMBERED_ASKED)
    answered = first_of(attributes, _ANSWERED[:1]) or _numbered(attributes, _NUMBERED_ANSWERED)
    asked, answered = asked or first_of(attributes, _ASKED), answered or first_of(attributes, _ANSWERED)
    system = attributes.get("gen_ai.system_instructions")
    if system is not None:
        asked = [{"role": "system", "content": _system(system)}, *_list(read_exchange(asked))]
    yield from exchange_fields(asked, answered)
    context = span.get("context")
    place = context if isinstance(context, Mapping) else span
    yield "episode", first_of(place, ("traceId", "trace_id"))
    for name, keys in _COLUMNS.items():
        yield name, first_of(attributes, keys)
    finish = first_of(attributes, ("gen_ai.response.finish_reasons",))
    yield "finish_reason", finish[0] if isinstance(finish, list) and finish else finish
    status = span.get("status")
    code = str(first_of(status, ("code", "status_code"))) if isinstance(status, Mapping) else ""
    if code.endswith(("ERROR", "2")):
        yield "status", "error"
    start, end = (_seconds(first_of(span, keys)) for keys in (_START, _END))
    if start is not None and end is not None:
        yield "timing", {"start": start, "total": end - start, "generation": end - start}
    for event in span.get("events") or ():
        if isinstance(event, Mapping) and event.get("name") == _EVALUATION:
            own = _attributes(event.get("attributes"))
            yield from score_fields(
                own.get("gen_ai.evaluation.name"),
                own.get("gen_ai.evaluation.score.value", own.get("gen_ai.evaluation.score.label")),
            )


_START = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
_END = ("endTimeUnixNano", "end_time_unix_nano", "end_time")


def _seconds(value: Any) -> float | None:
    """Return a time as Unix seconds: nanoseconds as a number or a text of digits, or ISO 8601."""
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return int(value) / 1e9
    return unix_seconds(value)


def _numbered(attributes: Attributes, starts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the messages of attributes such as ``gen_ai.prompt.0.role``, in the order of their numbers."""
    messages: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        start = next((each for each in starts if key.startswith(each)), None)
        match = _NUMBERED.fullmatch(key, len(start)) if start else None
        if match:
            message = messages.setdefault(int(match[1]), {"role": "assistant", "content": ""})
            _put(message, match[2], value)
    return [
        {**message, "tool_calls": [*message["tool_calls"].values()]} if "tool_calls" in message else message
        for _, message in sorted(messages.items())
    ]


_CALL = re.compile(r"tool_calls\.(\d{1,4})\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)")


def _put(message: dict[str, Any], key: str, value: Any) -> None:
    """Store a numbered attribute in its message: a text, or a part of a call."""
    if call := _CALL.fullmatch(key):
        message.setdefault("tool_calls", {}).setdefault(int(call[1]), {})[call[2]] = value
    elif key in ("role", "content", "tool_call_id", "name"):
        message[key] = parsed_text(value) if key == "content" and str(value).startswith("[") else value


def _system(value: Any) -> str:
    parts = parsed_text(value)
    texts = (
        [part.get("content") for part in parts if isinstance(part, Mapping)]
        if isinstance(parts, list)
        else []
    )
    return "\n".join(str(text) for text in texts) if texts else str(parts)


def _list(value: list[dict[str, Any]] | str) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [{"role": "user", "content": value}] if value else []
