"""Reads the calls of judges, and texts of judges that reward functions log beside the sample."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from rlpanel.schema import JudgeCall
from rlpanel.sources.records.content_parts import read_content
from rlpanel.sources.records.embedded_media import without_embedded
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.tool_calls import first_of, plain_text

# -- judge calls ---------------------------------------------------------------------------------------
# Reads the calls of judges in the shapes in which trainers and environments log them.
#
# verifiers (0.4.0, ``Trace.record_judge_call``) logs ``{"name", "request": {"model", "messages"}, "response":
# {"message", "parsed", "usage"}}``; OpenAI's completions have ``choices`` and ``usage``. Other keys are read
# by the names below.


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


# -- judge texts ---------------------------------------------------------------------------------------
# Reads the texts of judges that reward functions log under names of their own, beside the sample's fields.
#
# verl's reward loop logs ``genrm_response`` (FAPO) and all else that a reward function returns;
# TRL's ``log_extra`` makes columns such as ``judge_output``; slime's and miles' reward functions fill
# ``metadata["judge"]``. The names below were found in public reward functions of these trainers.


#: Who judges, and what of the call a key holds.
_WHO = r"(?:[a-z0-9]+_)*?(?:judge|genrm|grm|grader|reward_model)"
_PARTS = {
    **dict.fromkeys(("response", "output", "text", "raw", "completion", "result"), "answer"),
    **dict.fromkeys(("reasoning", "reason", "rationale", "explanation", "feedback"), "answer"),
    **dict.fromkeys(("critique", "analysis"), "answer"),
    **dict.fromkeys(("prompt", "request", "input", "messages"), "request"),
    **dict.fromkeys(("score", "reward"), "score"),
    **dict.fromkeys(("verdict", "choice", "label", "decision"), "verdict"),
    **dict.fromkeys(("error", "model", "seconds", "usage"), ""),
}
_KEY = re.compile(rf"({_WHO})(?:_({'|'.join(_PARTS)})s?)", re.ASCII)
#: Objects of reward functions that may hold such keys, or ``judge`` itself.
CONTAINERS = frozenset({"metadata", "reward_info", "reward_extra_info", "extra_info", "info"})
#: Parts that show that a judge was called; a score alone is a column as any other number.
_EVIDENCE = ("answer", "request", "error")
#: Most judges of a sample that are read so.
_MAX_JUDGES = 32


class JudgeKey(NamedTuple):
    """Name of the judge, and the part of its call that a key holds."""

    judge: str
    part: str


@lru_cache(maxsize=4096)
def judge_key(key: str) -> JudgeKey | None:
    """Return what a key says of a judge; None for other keys."""
    found = _KEY.fullmatch(key)
    return None if found is None else JudgeKey(found[1], _PARTS[found[2]] or found[2])


def may_judge(key: str, value: Any) -> bool:
    """Return True if a key that the schema does not know may hold a judge's text, or such keys."""
    return judge_key(key) is not None or (key in CONTAINERS and hasattr(value, "keys"))


def calls_in(fields: Iterable[tuple[str, Any]]) -> tuple[JudgeCall, ...]:
    """Return the calls of judges in fields that `may_judge` accepts: one for each judge or result.

    A call without a score and a verdict beside its text has none that is known: it is not missing.
    """
    parts: dict[str, dict[str, Any]] = {}
    calls: list[JudgeCall] = []
    for key, value in _flat(fields):
        found = judge_key(key)
        if value is None or value == "":
            continue
        if found is None:
            calls += _whole(key, value)
        elif isinstance(value, Mapping | list) and found.part == "answer":
            calls += _whole(found.judge, value)
        else:
            parts.setdefault(found.judge, {}).setdefault(found.part, value)
    for name, logged in parts.items():
        if any(isinstance(logged.get(each), str | list) for each in _EVIDENCE):
            calls += (_known(call) for call in judge_calls([{"name": name, **logged}]))
    return tuple(calls[:_MAX_JUDGES])


def _flat(fields: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    """Yield the keys of judges, also those inside of a container."""
    for key, value in fields:
        if key not in CONTAINERS:
            yield key, to_python(value)
            continue
        for name in list(value.keys())[:1000]:
            if name == "judge" or judge_key(name) is not None:
                yield name, to_python(value[name])


def _whole(name: str, value: Any) -> list[JudgeCall]:
    """Return calls that are logged as a text, an object or a list."""
    if isinstance(value, str):
        value = [{"answer": value}]
    if not isinstance(value, Mapping | list):
        return []
    calls = judge_calls(value if isinstance(value, list) else [value])
    return [_known(replace(call, name=name if call.name == "judge" else call.name)) for call in calls]


def _known(call: JudgeCall) -> JudgeCall:
    """Return a call whose verdict is not missing where the log has no place for one."""
    if call.verdict or call.error:
        return call
    score = score_of(call.answer) if len(call.answer) < 20 else math.nan
    verdict = call.answer if math.isfinite(score) else ""
    return replace(call, verdict=verdict, score=score, verdict_logged=bool(verdict))
