"""Reads the calls of judges in the shapes in which trainers and environments log them.

verifiers (0.4.0, ``Trace.record_judge_call``) logs ``{"name", "request": {"model", "messages"}, "response":
{"message", "parsed", "usage"}}``; OpenAI's completions have ``choices`` and ``usage``. Other keys are read by
the names below.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlpanel.schema import JudgeCall
from rlpanel.sources.records.content_parts import read_content
from rlpanel.sources.records.embedded_media import without_embedded
from rlpanel.sources.records.tool_calls import first_of, plain_text

Logged = Mapping[str, Any]

_NAMES = ("name", "judge", "judge_name", "grader", "id")
_MODELS = ("model", "model_name", "judge_model")
_REQUESTS = ("request", "messages", "prompt", "input", "query")
_ANSWERS = ("answer", "response", "output", "completion", "text", "content", "reasoning", "explanation")
_VERDICTS = ("verdict", "parsed", "label", "grade", "choice", "decision", "passed", "correct")
_SCORES = ("score", "reward", "value", "rating")
_SECONDS = ("seconds", "duration", "latency", "elapsed")
_USAGES = ("usage", "token_usage")
_PROMPT_TOKENS = ("prompt_tokens", "input_tokens", "inputTokens")
_ANSWER_TOKENS = ("answer_tokens", "completion_tokens", "output_tokens", "outputTokens")
_COSTS = ("cost", "cost_usd", "total_cost")
_ERRORS = ("error", "exception", "refusal")
#: Words of a verdict that stand for a number.
_WORDS = {
    **dict.fromkeys(("yes", "true", "correct", "pass", "passed", "accept", "accepted", "good"), 1.0),
    **dict.fromkeys(("no", "false", "incorrect", "fail", "failed", "reject", "rejected", "bad"), 0.0),
}


def judge_calls(value: Any) -> tuple[JudgeCall, ...]:
    """Return calls of judges: a list of them, an object with one per name, or a single one.

    An item that is not an object is the answer if it is a text, else the verdict.

    Raises
    ------
    ValueError
        If the value is neither a list nor an object.
    """
    if isinstance(value, Mapping):
        if any(key in value for key in (*_VERDICTS, *_SCORES, *_REQUESTS, "answer", "response")):
            return (_call(value, ""),)
        named = ((str(name), item) for name, item in value.items())
        pairs = (
            (name, each) for name, item in named for each in (item if isinstance(item, list) else [item])
        )
        return tuple(_call(item, name) for name, item in pairs)
    if not isinstance(value, list):
        raise ValueError("is neither a list nor an object")
    return tuple(_call(item, "") for item in value)


def judge_columns(calls: Sequence[JudgeCall]) -> dict[str, float]:
    """Return the sample columns that calls of judges give; sums only of what all calls log."""
    columns = {
        "judge_calls": float(len(calls)),
        "judge_missing": float(sum(each.is_missing for each in calls)),
    }
    tokens = sum(each.prompt_tokens + each.answer_tokens for each in calls)
    seconds = sum(each.seconds for each in calls)
    scores = list(score_by_judge(calls).values())
    found = {"judge_tokens": tokens, "judge_seconds": seconds}
    if len(scores) > 1:
        found["judge_disagreement"] = max(scores) - min(scores)
    return columns | {name: value for name, value in found.items() if math.isfinite(value)}


def score_by_judge(calls: Sequence[JudgeCall]) -> dict[str, float]:
    """Return the mean score of each judge of a sample; judges without a score are left out."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for each in calls:
        if math.isfinite(each.score) and not each.error:
            scores[each.name].append(each.score)
    return {name: sum(found) / len(found) for name, found in scores.items()}


def score_of(verdict: Any) -> float:
    """Return the number of a verdict: itself, that of its word, or its ``score``; NaN for others."""
    if isinstance(verdict, bool):
        return float(verdict)
    if isinstance(verdict, int | float):
        return float(verdict) if math.isfinite(verdict) else math.nan
    if isinstance(verdict, str):
        word = verdict.strip().strip(".*").lower()
        try:
            number = _WORDS[word] if word in _WORDS else float(word)
        except ValueError:
            return math.nan
        return number if math.isfinite(number) else math.nan
    if isinstance(verdict, Mapping):
        return score_of(first_of(verdict, (*_SCORES, *_VERDICTS)))
    return math.nan


def _call(item: Any, name: str) -> JudgeCall:
    if not isinstance(item, Mapping):
        is_text = isinstance(item, str) and math.isnan(score_of(item))
        return _call({} if item is None else {"answer" if is_text else "verdict": item}, name)
    response = item.get("response")
    response = response if isinstance(response, Mapping) else {}
    request = first_of(item, _REQUESTS)
    inside = request if isinstance(request, Mapping) else {}
    verdict = first_of(item, _VERDICTS)
    if verdict is None:
        verdict = first_of(response, _VERDICTS)
    logged = first_of(item, _SCORES)
    if verdict is None:
        verdict = logged
    usage = next((part[key] for part in (item, response) for key in _USAGES if _is_object(part.get(key))), {})
    parts = (usage, item)
    error = first_of(item, _ERRORS)
    if error is None:
        error = first_of(response, ("error", "refusal"))
    score = score_of(logged) if logged is not None else score_of(verdict)
    return JudgeCall(
        name=str(first_of(item, _NAMES) or name or "judge"),
        model=str(first_of(item, _MODELS) or first_of(inside, _MODELS) or first_of(response, _MODELS) or ""),
        request=tuple(_request(request)),
        answer=_answer(item, response),
        verdict="" if verdict is None else _text(verdict),
        score=score,
        prompt_tokens=_number(parts, _PROMPT_TOKENS),
        answer_tokens=_number(parts, _ANSWER_TOKENS),
        cost=_number(parts, _COSTS),
        seconds=_number((item, response), _SECONDS),
        error="" if error is None or error is False else _text(error),
        verdict_logged=item.get("verdict_logged") is not False,
    )


def _request(request: Any) -> Iterator[tuple[str, str]]:
    """Yield the messages of a request: a text, messages, or an object with either."""
    if isinstance(request, Mapping):
        inner = first_of(request, ("messages", "prompt", "input"))
        if inner is None and "content" not in request:
            yield "", _text(request)
            return
        request = [request] if inner is None else inner
    for message in request if isinstance(request, list) else [] if request is None else [request]:
        if isinstance(message, Mapping) and "content" in message:
            yield str(message.get("role") or ""), _text(message["content"])
        else:
            yield "", _text(message)


def _answer(item: Logged, response: Logged) -> str:
    """Return the text of the judge: that of the item, or of a chat message in its response."""
    if response:
        choices = response.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else response
        message = first.get("message") if isinstance(first, Mapping) else None
        found = message if isinstance(message, Mapping) else response
        value = first_of(found, ("content", "text", "answer", "output"))
        return "" if value is None else _text(value)
    value = first_of(item, _ANSWERS)
    return "" if value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return without_embedded(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list):
        return without_embedded(read_content(value).text)
    return without_embedded(plain_text(value))


def _number(parts: Sequence[Logged], keys: tuple[str, ...]) -> float:
    for part in parts:
        value = first_of(part, keys)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return math.nan


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)
