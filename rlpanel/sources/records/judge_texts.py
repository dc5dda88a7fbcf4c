"""Reads the texts of judges that reward functions log under names of their own, beside the sample's fields.

verl's reward loop logs ``genrm_response`` (FAPO) and all else that a reward function returns;
TRL's ``log_extra`` makes columns such as ``judge_output``; slime's and miles' reward functions fill
``metadata["judge"]``. The names below were found in public reward functions of these trainers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from rlpanel.schema import JudgeCall
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.judge_calls import judge_calls, score_of

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
