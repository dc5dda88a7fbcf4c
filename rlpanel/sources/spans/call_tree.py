"""Finds the calls in a trace, and reads what was logged as input and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.sources.records.chat_shapes import chat_items
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.tool_calls import first_of, parsed_text, plain_text

# -- exchange ------------------------------------------------------------------------------------------
# Reads what a tracer logged as input and output: messages, texts, or objects that hold them.
#
# Tracers keep the arguments and the result of the traced function, as values or as JSON texts: messages in
# any shape that `chat_shapes` knows, or objects around them.


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


# -- call tree -----------------------------------------------------------------------------------------
# Finds the calls in a trace, whatever its keys are, and gives what was asked and answered.
#
# A trace is an object whose calls hold further calls (``children``), or lists of calls that name the one
# around them. The function `arrange_calls` adds the prompt and the response below the key ``calls``.


#: Key of what is added, and the part of a mapped key that leads to it.
CALLS = "calls"
PREFIX = f"{CALLS}."
_ASKED = ("input", "inputs", "request")
_ANSWERED = ("output", "outputs", "response", "result")
#: Beginnings of the keys that are a call's own.
OF_CALLS = tuple(f"{name}." for name in (*_ASKED, *_ANSWERED))
#: Keys that say what a call is, and words of their values that name a call of a model.
_KINDS = ("type", "kind", "run_type", "span_type", "spanType", "runType", "span_kind")
_MODEL_KINDS = ("llm", "generation", "chat", "completion")
#: Most calls of a trace, and calls inside of one another.
_MAX_CALLS, _MAX_DEPTH = 10_000, 64

_Call = dict[str, Any]


def arrange_calls(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a trace with ``calls``: the prompt and the response of its outermost call, or its last model's.

    Returns None for a document without calls, or if a model is not among them.
    """
    if CALLS in document or not any(_may_hold_calls(value) for value in document.values()):
        return None
    values = {key: to_python(value) for key, value in document.items()}
    calls = _nested_calls(values) or _listed_calls(values)
    models = [call for call in calls if _is_of_model(call)]
    if not models:
        return None
    for call in (calls[0], *reversed(models)):
        found = dict(exchange_fields(first_of(call, _ASKED), first_of(call, _ANSWERED)))
        if {"prompt", "response"} <= found.keys():
            return {**values, CALLS: found}
    return None


def _may_hold_calls(value: Any) -> bool:
    return isinstance(value, list) or hasattr(value, "as_list")


def _nested_calls(root: _Call) -> list[_Call]:
    """Return a call and those below it, if they have the same keys: the outermost is the first."""
    for call in (root, *(value for value in root.values() if isinstance(value, dict))):
        key = next((key for key, value in call.items() if _are_like(call, key, value)), None)
        if key is not None:
            return list(_walk(call, key, 0))
    return []


def _are_like(root: _Call, key: str, value: Any) -> bool:
    """Return True for a list of objects that have an input, an output and most keys of the object around."""
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        return False
    shared = set(root).intersection(*value)
    is_call = bool(shared & set(_ASKED)) and (bool(shared & set(_ANSWERED)) or key in shared)
    return is_call and 2 * len(shared) >= min(map(len, value))


def _walk(call: _Call, key: str, depth: int) -> Iterator[_Call]:
    yield call
    inner = call.get(key)
    for each in inner if isinstance(inner, list) and depth < _MAX_DEPTH else ():
        if isinstance(each, dict):
            yield from _walk(each, key, depth + 1)


def _listed_calls(document: _Call) -> list[_Call]:
    """Return the calls in a document's lists, the outermost first, if each names the call around it."""
    listed = [
        each
        for value in document.values()
        if isinstance(value, list)
        for each in value
        if isinstance(each, dict) and not set(_ASKED).isdisjoint(each)
    ][:_MAX_CALLS]
    parents = next((key for call in listed for key in call if _is_parent(key)), None)
    if parents is None:
        return []
    ids = {value for call in listed for key, value in call.items() if key != parents and _is_id(value)}
    outermost = [call for call in listed if call.get(parents) in (None, "") or call[parents] not in ids]
    if not outermost or any(not _is_id(call.get(parents) or "none") for call in listed):
        return []
    return [outermost[0], *(call for call in listed if call is not outermost[0])]


def _is_parent(key: str) -> bool:
    return "parent" in key.lower()


def _is_id(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and 0 < len(str(value)) <= 128


def _is_of_model(call: _Call) -> bool:
    """Return True for a call of a model: its kind says so, or messages were asked."""
    kind = str(first_of(call, _KINDS) or "").lower()
    if any(name in kind for name in _MODEL_KINDS):
        return True
    asked = parsed_text(first_of(call, _ASKED))
    inner = [*asked.values()] if isinstance(asked, dict) else []
    return any(isinstance(each, (list, dict)) and chat_items(each) is not None for each in (asked, *inner))
