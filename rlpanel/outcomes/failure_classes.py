"""Decides the class of one failure: from what is logged, else from texts, always with quoted words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpanel.outcomes.failure_words import (
    CALL,
    CONTEXT,
    CUT_OFF,
    ENVIRONMENT,
    GRADER,
    REFUSAL,
    TIMEOUT,
    TOOL,
    UNCLASSIFIED,
    WRONG,
    failed_test,
    harness_failure,
    refusal_in,
    said_class,
)
from rlpanel.sources.records.judge_calls import score_by_judge
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.written_call import is_unreadable

#: Class of each status that says that a rollout failed.
_OF_STATUS = {"timeout": TIMEOUT, "environment_error": ENVIRONMENT, "tool_error": TOOL, "truncated": CUT_OFF}
#: Classes that the reason of a status may name; a rollout that failed may name all of them.
_TOLD = {"ok": {TIMEOUT, CONTEXT}, "discarded": {TIMEOUT, CONTEXT}, "truncated": {TIMEOUT, CONTEXT}}
_TOLD |= {"": {TIMEOUT, CONTEXT, GRADER, REFUSAL}}
_ALL_TOLD = frozenset({TIMEOUT, ENVIRONMENT, GRADER, CONTEXT, CALL, REFUSAL})
#: Reasons of engines and environments for an end at a limit of tokens or turns, and for a regular one.
_LIMITS = frozenset({"length", "max_tokens", "max_turns", "max_steps", "max_output_tokens"})
_ENDED = frozenset({"stop", "eos", "eos_token", "end_turn", "completed", "agent_completed", "submitted"})
#: Roles of messages that hold what tools and environments returned.
_RESULTS = frozenset({"tool", "environment"})
#: A longer result that is no error may be a text about errors, such as a file that was read.
_MAX_RESULT = 2000


@dataclass(frozen=True)
class Failure:
    """Class of a failed sample.

    Attributes
    ----------
    name : str
        One of `failure_words.CLASSES`.
    inferred : bool
        True if texts were interpreted, False if the log names the class.
    evidence : str
        Words of the log; empty only for a failure without a class.
    place : str
        Field, message or call that holds them.
    """

    name: str
    inferred: bool = False
    evidence: str = ""
    place: str = ""


@dataclass(frozen=True)
class Ending:
    """What the columns of a sample say about its end; empty texts and NaN where nothing is logged.

    Attributes
    ----------
    status, reason, finish : str
    truncated, reward : float
    least : float
        Reward from which on a sample passes; NaN if rewards are graded.
    """

    status: str = ""
    reason: str = ""
    finish: str = ""
    truncated: float = math.nan
    reward: float = math.nan
    least: float = 1.0

    @property
    def failed(self) -> bool:
        """True if a status says so, or the reward is below that of a sample that passes."""
        if self.status in ("timeout", "environment_error", "tool_error"):
            return True
        if math.isfinite(self.reward) and math.isfinite(self.least):
            return self.reward < self.least
        return self.is_cut

    @property
    def is_cut(self) -> bool:
        """True if a limit of tokens or turns ended it."""
        return self.status == "truncated" or self.truncated == 1 or self.finish.lower() in _LIMITS


def logged_failure(end: Ending) -> Failure | None:
    """Return the class of a failed sample that its status or its reasons name; None if they name none."""
    known = _OF_STATUS.get(end.status)
    for place, text in (("status_reason", end.reason), ("finish_reason", end.finish)):
        said = said_class(text.replace("_", " ")) or said_class(text) if text else None
        if said and said[0] in _TOLD.get(end.status, _ALL_TOLD):
            return Failure(said[0], False, text[:200], place)
    if known:
        return Failure(known, False, f"{end.status}: {end.reason}" if end.reason else end.status, "status")
    if end.is_cut:
        place, words = ("finish_reason", end.finish) if end.finish else ("truncated", "1")
        return Failure(CUT_OFF, False, words, place)
    return None


def inferred_failure(end: Ending, record: Record, answer: Mapping[str, str]) -> Failure:
    """Return the class of a failed sample whose log names none, by its texts.

    Parameters
    ----------
    end : Ending
    record : Record
        The sample, read in full.
    answer : mapping
        ``answer``, and ``match`` "no" if it differs from the ground truth; empty if this is not known.

    Notes
    -----
    A crash of the environment is inferred only if no status is logged, because "ok" rules it out. Only the
    last result of a tool counts: the policy went on after the others.
    """
    steps = (_of_grader, _of_messages, _of_words)
    found = (step(end, record) for step in steps)
    return next(filter(None, found), None) or _wrong(end, record, answer)


def _of_grader(end: Ending, record: Record) -> Failure | None:
    """Return a failure of a judge or a verifier."""
    agent = record.agent
    if agent is None:
        return None
    for number, call in enumerate(agent.judge_calls, start=1):
        if call.error:
            return Failure(GRADER, False, call.error[:200], f"judge call {number} ({call.name})")
        if call.is_missing:
            words = f"no verdict: {call.answer[:160]!r}" if call.answer else "no verdict, and no answer"
            return Failure(GRADER, True, words, f"judge call {number} ({call.name})")
    for name, text in agent.verifier.items():
        if words := harness_failure(text):
            return Failure(GRADER, True, words, f"verifier: {name}")
    return None


def _of_messages(end: Ending, record: Record) -> Failure | None:
    """Return a failure that the last result of a tool or the last call names."""
    messages: Sequence[Mapping[str, Any]] = record.messages
    before = max(record.prompt_messages, 0)
    own = [at for at, each in enumerate(messages) if at >= before and each["role"] == "assistant"]
    if own:
        for call in messages[own[-1]].get("tool_calls", ()):
            if is_unreadable(call["arguments"]):
                words = f"{call['name']}: {call['arguments'][:160]}"
                return Failure(CALL, True, words, f"message {own[-1] + 1}, its call is not valid JSON")
    results = [at for at, each in enumerate(messages) if at >= before and each["role"] in _RESULTS]
    if results:
        at = results[-1]
        message = messages[at]
        said = said_class(message["content"], of_tool=True)
        is_short = message.get("is_error") or len(message["content"]) <= _MAX_RESULT
        if said and is_short and (said[0] == CALL or not end.status):
            return Failure(said[0], True, said[1], f"message {at + 1} ({message['role']})")
        if message.get("is_error") and at == len(messages) - 1:
            words = " ".join(message["content"].split())[:200]
            return Failure(TOOL, bool(message.get("error_inferred")), words, f"message {at + 1} (tool)")
    return None


def _of_words(end: Ending, record: Record) -> Failure | None:
    """Return a refusal in the policy's last message, or in a response without messages."""
    own = [at for at, each in enumerate(record.messages) if each["role"] == "assistant"]
    if own:
        text, place = record.messages[own[-1]]["content"], f"message {own[-1] + 1} (assistant)"
    else:
        text, place = record.texts.get("response") or "", "response"
    words = refusal_in(text)
    return Failure(REFUSAL, True, words, place) if words else None


def _wrong(end: Ending, record: Record, answer: Mapping[str, str]) -> Failure:
    """Return a wrong answer if something says that the answer was checked; else no class."""
    reward = f"reward {end.reward:g}"
    agent = record.agent
    if answer.get("match") == "no" and answer.get("answer"):
        truth = record.texts.get("ground_truth", "")
        words = f"answer {answer['answer'][:80]!r}, ground truth {truth[:80]!r}, {reward}"
        return Failure(WRONG, True, words, "response")
    for name, text in agent.verifier.items() if agent is not None else ():
        if words := failed_test(text):
            return Failure(WRONG, True, words, f"verifier: {name}")
    scores = score_by_judge(agent.judge_calls) if agent is not None else {}
    if scores:
        worst = min(scores, key=lambda name: scores[name])
        return Failure(WRONG, True, f"score {scores[worst]:g} of {worst}, {reward}", "judge calls")
    if math.isfinite(end.reward):
        if end.status == "ok":
            return Failure(WRONG, False, f"status ok, {reward}", "status")
        if end.finish.lower() in _ENDED:
            return Failure(WRONG, True, f"finish reason {end.finish}, {reward}", "finish_reason")
    return Failure(UNCLASSIFIED)
