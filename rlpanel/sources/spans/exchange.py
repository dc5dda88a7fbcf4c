"""Reads what a tracer logged as input and output: messages, texts, or objects that hold them.

Tracers keep the arguments and the result of the traced function, as values or as JSON texts: messages in any
shape that `chat_shapes` knows, or objects around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.sources.records.chat_shapes import chat_items
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.tool_calls import parsed_text, plain_text

Field = tuple[str, Any]
Fields = Iterator[Field]

#: Keys that hold the messages or the text of an input or an output, the likeliest first.
_HOLDERS = (
    *("messages", "input_messages", "output_messages", "chat_history"),
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


def read_exchange(value: Any) -> list[Any] | str:
    """Return the messages that a value holds, else its text; an object without a known key becomes JSON."""
    value = parsed_text(value)
    if value is None:
        return ""
    found = _held(value, _DEPTH)
    return found if found is not None else plain_text(value)


def _held(value: Any, depth: int) -> list[Any] | str | None:
    """Return the messages or the text inside a value; None if it has neither."""
    if isinstance(value, str):
        return value
    if depth == 0 or not isinstance(value, list | Mapping):
        return None
    if (messages := chat_items(value)) is not None:
        return messages
    if isinstance(value, list):
        return _held(value[0], depth - 1) if len(value) == 1 else None
    for key in _HOLDERS:
        if value.get(key) is not None and (found := _held(parsed_text(value[key]), depth - 1)):
            return found
    return None


def build_call(fields: Fields, path: str, *, full: bool) -> Record:
    """Build the record of a call or a trace; ``response_tokens`` is the number that the tracer counted."""
    named = list(fields)
    record = build_record(0, [field for field in named if field[0] != _COUNT], path, full=full)
    count = dict(named).get(_COUNT)
    if isinstance(count, int | float):
        record.numbers.setdefault(_COUNT, float(count))
    return record


_COUNT = "response_tokens"


def score_fields(name: Any, value: Any) -> Fields:
    """Yield a score as a reward of its name, or as a column if it is a text."""
    if not isinstance(name, str) or not name or value is None:
        return
    if isinstance(value, int | float):
        yield f"rewards/{name}", float(value)
        if name == "reward":
            yield "reward", float(value)
    elif isinstance(value, str):
        yield f"score_{name}", value
