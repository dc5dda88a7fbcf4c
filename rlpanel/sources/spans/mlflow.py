"""Reads MLflow's traces: documents with ``info`` and ``data.spans``, alone, in a list or one a line.

A trace is a sample. Its conversation is that of its last call of a model, which repeats the earlier ones,
else the input and output of its root span. Feedback becomes rewards by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.json_parser import parse_value, to_python
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.spans.call_tree import (
    build_call,
    exchange_fields,
    read_exchange,
    score_fields,
)

_INPUTS, _OUTPUTS, _TYPE = "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.spanType"
_CALLS = ("CHAT_MODEL", "LLM")
#: Names of the attributes in MLflow before version 3.
_OLD_NAMES = {_INPUTS: "inputs", _OUTPUTS: "outputs", _TYPE: "span_type"}
_EXPECTED = ("expected_response", "ground_truth", "expected_answer", "answer")

Span = Mapping[str, Any]


class MLflow:
    """Adapter for MLflow's traces."""

    name = "MLflow"
    lacks_steps = True
    looks = "*.json or *.jsonl with 'info' and 'data', which holds 'spans' (MLflow)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a trace."""
        if not {"info", "data"} <= document.keys():
            return False
        data, info = to_python(document["data"]), to_python(document["info"])
        named = isinstance(info, Mapping) and ("trace_id" in info or "request_id" in info)
        return named and isinstance(data, Mapping) and isinstance(data.get("spans"), list)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trace as one sample."""
        info, data = to_python(document.get("info")), to_python(document.get("data"))
        spans = data.get("spans") if isinstance(data, Mapping) else None
        if not isinstance(spans, list) or not isinstance(info, Mapping):
            raise LineError("MLflow: no 'info' or no 'data.spans'")
        spans = [span for span in spans if isinstance(span, Mapping)]
        return [build_call(_fields(info, spans), path, full=full)]


def _fields(info: Mapping[str, Any], spans: list[Span]) -> Iterator[tuple[str, Any]]:
    calls = [span for span in spans if _attribute(span, _TYPE) in _CALLS]
    last = max(calls, key=_end, default=None)
    root = next(
        (span for span in spans if not span.get("parent_id") and not span.get("parent_span_id")), None
    )
    for span in (last, root):
        asked, answered = (_attribute(span, key) for key in (_INPUTS, _OUTPUTS)) if span else (None, None)
        if read_exchange(answered):
            yield from exchange_fields(asked, answered)
            break
    yield "episode", info.get("trace_id") or info.get("request_id")
    state = str(info.get("state") or info.get("status") or "")
    yield "status", "error" if state == "ERROR" else state.lower() or None
    if root is not None:
        yield "agent", root.get("name")
    yield from _times(info)
    for assessment in info.get("assessments") or ():
        if isinstance(assessment, Mapping):
            yield from _assessment(assessment)


def _assessment(assessment: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    name = assessment.get("assessment_name") or assessment.get("name")
    feedback, expected = assessment.get("feedback"), assessment.get("expectation")
    if isinstance(feedback, Mapping):
        yield from score_fields(name, feedback.get("value"))
    elif isinstance(expected, Mapping) and name in _EXPECTED:
        yield "ground_truth", expected.get("value")


def _times(info: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    start, milliseconds = info.get("request_time"), info.get("execution_duration_ms")
    begin = unix_seconds(start)
    if begin is None and isinstance(info.get("timestamp_ms"), int):
        begin, milliseconds = info["timestamp_ms"] / 1000, info.get("execution_time_ms")
    seconds = str(info.get("execution_duration") or "")
    if milliseconds is None and seconds.endswith("s"):  # protobuf's duration: "1.5s"
        milliseconds = float(seconds[:-1]) * 1000
    if begin is not None and isinstance(milliseconds, int | float):
        yield "timing", {"start": begin, "total": milliseconds / 1000}


def _attribute(span: Span, name: str) -> Any:
    """Return a value that MLflow wrote as JSON, which is a text in quotes for a text."""
    attributes = span.get("attributes")
    own = attributes.get(name) if isinstance(attributes, Mapping) else None
    value = own if own is not None else span.get(_OLD_NAMES[name])
    if isinstance(value, str) and value.startswith('"'):
        with suppress(LineError):
            return parse_value(value)
    return value


def _end(span: Span) -> float:
    value = next((span[key] for key in ("end_time_unix_nano", "end_time_ns", "end_time") if span.get(key)), 0)
    return (
        float(value)
        if str(value).isdecimal() or isinstance(value, int | float)
        else unix_seconds(value) or 0.0
    )
