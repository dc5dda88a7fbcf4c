"""Reads LangSmith's runs and Langfuse's traces and generations, as their exports write them.

Of LangSmith's runs, those without a parent are samples: the others are steps of them. A trace of Langfuse is
a sample, or each call of a model if only observations were exported. Scores become rewards by name.
"""

from __future__ import annotations

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

Row = Mapping[str, Any]
Fields = Iterator[tuple[str, Any]]


class LangSmith:
    """Adapter for LangSmith's runs."""

    name = "LangSmith"
    lacks_steps = True
    looks = "*.jsonl, *.json, *.csv or *.parquet with 'run_type', 'inputs' and 'outputs' (LangSmith)"

    def accepts(self, path: str, document: Row) -> bool:
        """Return True if the row is a run of LangSmith."""
        return {"run_type", "inputs"} <= document.keys() and not {
            "trace_id",
            "dotted_order",
            "id",
        }.isdisjoint(document)

    def read(self, document: Row, path: str, *, full: bool) -> list[Record]:
        """Read a run without a parent; a step of another run has no sample of its own."""
        run = {key: to_python(value) for key, value in document.items()}
        if run.get("parent_run_id"):
            return []
        return [build_call(_run_fields(run), path, full=full)]


def _run_fields(run: Row) -> Fields:
    yield from exchange_fields(run.get("inputs"), run.get("outputs"))
    yield "episode", run.get("trace_id") or run.get("id")
    yield "agent", run.get("name")
    yield "group", run.get("reference_example_id")
    yield "response_tokens", run.get("completion_tokens")
    yield "status", "error" if run.get("error") else run.get("status")
    yield "status_reason", run.get("error")
    yield from _timing(run.get("start_time"), run.get("end_time"))
    feedback = parsed_text(run.get("feedback_stats"))
    for name, stats in feedback.items() if isinstance(feedback, Mapping) else ():
        yield from score_fields(name, stats.get("avg") if isinstance(stats, Mapping) else stats)
    expected = parsed_text(run.get("reference_outputs"))
    if expected:
        yield "ground_truth", read_exchange(expected)


class Langfuse:
    """Adapter for Langfuse's traces and observations."""

    name = "Langfuse"
    lacks_steps = True
    looks = (
        "*.jsonl, *.json or *.csv with 'input', 'output' and 'htmlPath', 'traceId' or 'trace_id' (Langfuse)"
    )

    def accepts(self, path: str, document: Row) -> bool:
        """Return True if the row is a trace or an observation."""
        if not {"id", "input", "output"} <= document.keys():
            return False
        is_observation = "type" in document and not {"traceId", "trace_id"}.isdisjoint(document)
        return is_observation or not {"htmlPath", "projectId", "project_id", "sessionId"}.isdisjoint(document)

    def read(self, document: Row, path: str, *, full: bool) -> list[Record]:
        """Read a trace or a call of a model; other observations have no sample of their own."""
        row = {key: to_python(value) for key, value in document.items()}
        if row.get("type", "GENERATION") != "GENERATION":
            return []
        return [build_call(_trace_fields(row), path, full=full)]


def _trace_fields(row: Row) -> Fields:
    yield from exchange_fields(row.get("input"), row.get("output"))
    yield "episode", first_of(row, ("traceId", "trace_id", "id"))
    yield "agent", row.get("name")
    yield "model", first_of(row, ("model", "providedModelName", "provided_model_name"))
    usage = parsed_text(first_of(row, ("usageDetails", "usage_details", "usage")))
    if isinstance(usage, Mapping):
        yield "response_tokens", usage.get("output")
    if row.get("level") == "ERROR":
        yield "status", "error"
        yield "status_reason", first_of(row, ("statusMessage", "status_message"))
    yield from _timing(
        first_of(row, ("startTime", "start_time", "timestamp")), first_of(row, ("endTime", "end_time"))
    )
    scores = parsed_text(row.get("scores"))
    if isinstance(scores, Mapping):  # the table's export: name → values
        for name, values in scores.items():
            numbers = values if isinstance(values, list) else [values]
            yield from score_fields(name, numbers[-1] if numbers else None)
    for score in scores if isinstance(scores, list) else ():
        if isinstance(score, Mapping):
            yield from score_fields(score.get("name"), first_of(score, ("value", "stringValue")))
    expected = first_of(row, ("expectedOutput", "expected_output"))
    if expected is not None:
        yield "ground_truth", read_exchange(expected)


def _timing(start: Any, end: Any) -> Fields:
    begin, finish = unix_seconds(start), unix_seconds(end)
    if begin is not None and finish is not None:
        yield "timing", {"start": begin, "total": finish - begin}
