"""Reads what a tracer logged as input and output: messages, texts, or objects that hold them.

Tracers keep the arguments and the result of the traced function, as values or as JSON texts: OpenAI's and
LangChain's messages, Gemini's parts, OpenTelemetry's parts, or any object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse_value
from rlpanel.sources.records.messages import is_messages, plain_text
from rlpanel.sources.records.record_types import Record, step_from_path

Field = tuple[str, Any]
Fields = Iterator[Field]

#: Keys that hold the messages or the text of an input or an output, the likeliest first.
_MESSAGES = ("messages", "input_messages", "output_messages", "chat_history")
_HOLDERS = (
    *("choices", "generations", "message", "kwargs", "input", "output", "inputs", "outputs"),
    *("response", "answer", "result", "question", "query", "prompt", "completion", "content", "text"),
)
#: How deeply holders may be nested.
_DEPTH = 6


def exchange_fields(asked: Any, answered: Any) -> Fields:
    """Yield the prompt and the response of a call or a trace.

    Parameters
    ----------
    asked, answered : any
        Input and output as they were logged. An output that repeats the input's messages is the whole
        conversation, as graphs of LangChain return it.
    """
    prompt, response = read_exchange(asked), read_exchange(answered)
    if isinstance(prompt, list) and isinstance(response, list) and response[: len(prompt)] == prompt:
        response = response[len(prompt) :] or response
    if prompt:
        yield "prompt", prompt
    if response:
        yield "response", response


def read_exchange(value: Any) -> list[dict[str, Any]] | str:
    """Return the messages that a value holds, else its text; an object without a known key becomes JSON."""
    value = parsed(value)
    if value is None:
        return ""
    found = _held(value, _DEPTH)
    return found if found is not None else plain_text(value)


def parsed(value: Any) -> Any:
    """Return what a JSON text of an object, a list or a text holds; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return parse_value(value)
        except LineError:
            return value
    return value


def _held(value: Any, depth: int) -> list[dict[str, Any]] | str | None:
    """Return the messages or the text inside a value; None if it has neither."""
    if isinstance(value, str):
        return value
    if depth == 0 or not isinstance(value, list | Mapping):
        return None
    if messages := _messages(value):
        return messages
    if isinstance(value, list):
        return _held(value[0], depth - 1) if len(value) == 1 else None
    for key in (*_MESSAGES, *_HOLDERS):
        if value.get(key) is not None and (found := _held(parsed(value[key]), depth - 1)):
            return found
    return None


def _messages(value: Any) -> list[dict[str, Any]]:
    """Return a list of messages, or a single one, in OpenAI's shape; empty if the value is neither."""
    items = value if isinstance(value, list) else [value]
    while len(items) == 1 and isinstance(items[0], list):  # LangChain batches its inputs
        items = items[0]
    read = [_message(item) for item in items]
    messages = [message for found in read if found is not None for message in found]
    return messages if messages and None not in read and is_messages(messages) else []


def _message(item: Any) -> list[dict[str, Any]] | None:
    """Return a message as those of OpenAI, with the results of tools on their own; None if it is another."""
    if not isinstance(item, Mapping):
        return None
    if "parts" in item and isinstance(item.get("role"), str):
        return list(_of_parts(item))
    if "role" in item and ("content" in item or "tool_calls" in item):
        return [dict(item)]
    own = item.get("kwargs") or item.get("data")
    if isinstance(own, Mapping) and "content" in own:  # LangChain's serialised message
        return [_langchain(own, str(own.get("type") or item.get("type") or (item.get("id") or [""])[-1]))]
    if isinstance(item.get("type"), str) and item["type"] in _LANGCHAIN and "content" in item:
        return [_langchain(item, item["type"])]
    return None


#: LangChain's types and classes of messages, with OpenAI's role.
_LANGCHAIN = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "AIMessageChunk": "assistant",
    "FunctionMessage": "tool",
}


def _langchain(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    kept = {key: item[key] for key in ("content", "name", "tool_calls", "tool_call_id") if item.get(key)}
    return {"content": "", **kept, "role": _LANGCHAIN.get(kind, kind)}


def _of_parts(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of one that has OpenTelemetry's parts: the results of tools, then the rest."""
    message: dict[str, Any] = {"role": item["role"], "content": []}
    calls = []
    for part in item["parts"] if isinstance(item["parts"], list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "tool_call":
            calls.append({key: part.get(key) for key in ("id", "name", "arguments")})
        elif kind == "tool_call_response":
            content = part.get("response", part.get("result"))
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": read_exchange(content)}
        elif kind == "reasoning":
            message["reasoning_content"] = plain_text(part.get("content", ""))
        elif kind == "text":
            message["content"].append({"type": "text", "text": plain_text(part.get("content", ""))})
        else:
            message["content"].append(part)
    if calls:
        message["tool_calls"] = calls
    if message["content"] or calls or "reasoning_content" in message:
        yield message


def build_call(fields: Fields, path: str, *, full: bool) -> Record:
    """Build the record of a call or a trace; ``response_tokens`` is the number that the tracer counted.

    Tracers log no step of training: it is 0 unless a folder's or file's name has one.
    """
    named = list(fields)
    record = build_record(
        step_from_path(path) or 0, [field for field in named if field[0] != _COUNT], path, full=full
    )
    count = dict(named).get(_COUNT)
    if isinstance(count, int | float):
        record.numbers.setdefault(_COUNT, float(count))
    return record


_COUNT = "response_tokens"


def score_fields(name: Any, value: Any) -> Fields:
    """Yield a score as a reward of its name, and as the reward if it has that name; texts are columns."""
    if not isinstance(name, str) or not name or value is None:
        return
    if isinstance(value, int | float):
        yield f"rewards/{name}", float(value)
        if name == "reward":
            yield "reward", float(value)
    elif isinstance(value, str):
        yield f"score_{name}", value


def unix_seconds(value: Any) -> float | None:
    """Return a time in ISO 8601 as Unix seconds; None if it is not one."""
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
    except (AttributeError, ValueError, OverflowError, OSError):
        return None
