"""Decides the class of a failure: from what is logged, else from words in texts, quoted as evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpanel.sources.records.judge_calls import score_by_judge
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.agent_line import is_unreadable

# -- failure words -------------------------------------------------------------------------------------
# Words by which texts name a class of failure, and the words that were found, as evidence.
#
# The patterns are those of messages that programs write: Python's and Docker's errors, HTTP's statuses, names
# of the exceptions of Harbor (0.26.0) and verifiers (0.4.0), and of inference servers such as vLLM.


TIMEOUT, ENVIRONMENT, GRADER = "timeout", "environment_crash", "grader_crash"
CONTEXT, CUT_OFF, CALL, TOOL = "context_full", "cut_off", "malformed_call", "tool_error"
REFUSAL, WRONG, UNCLASSIFIED, NOT_READ = "refusal", "wrong_answer", "unclassified", "not_read"

#: All classes, in the order of screens and tables.
CLASSES = (
    *(TIMEOUT, ENVIRONMENT, GRADER, CONTEXT, CUT_OFF, CALL, TOOL, REFUSAL, WRONG, UNCLASSIFIED, NOT_READ),
)
#: Whose failure a class is.
KINDS = {
    **dict.fromkeys((ENVIRONMENT, GRADER), "infrastructure"),
    **dict.fromkeys((TIMEOUT, CONTEXT, CUT_OFF), "limit"),
    **dict.fromkeys((CALL, TOOL, REFUSAL, WRONG), "policy"),
    **dict.fromkeys((UNCLASSIFIED, NOT_READ), "unknown"),
}


def _words(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_TIMEOUT = _words(r"tim(?:e|ed)[ _-]?out", r"TimeoutExpired", r"deadline[ _]exceeded", r"exit code:? 124\b")
_ENVIRONMENT = _words(
    *(r"connection (?:refused|reset|aborted|closed)", r"broken pipe", r"network is unreachable"),
    *(r"(?:sandbox|container|pod|runtime|environment)\b.{0,40}\b(?:died|crash\w*|killed|exited|stopped|lost)",
      r"(?:sandbox|container|pod|environment)\b.{0,30}\b(?:not (?:found|running)|unavailable|is gone)"),
    *(r"cannot connect to the docker daemon", r"OOM[- ]?killed", r"out of memory", r"no space left"),
    *(r"name resolution",),
    *(r"segmentation fault", r"SandboxError", r"\b50[0234] (?:bad gateway|service|internal|gateway)"),
    *(r"internal server error", r"service unavailable", r"too many requests|rate.?limit"),
)  # fmt: skip
_GRADER = _words(
    *(
        r"\b(?:grader|verifier|judge|scorer|scoring|reward (?:function|model|file)|test harness)\b",
        r"RewardFile\w*",
    ),
    *(
        r"Verifier\w*Error",
        r"AddTestsDirError",
        r"DownloadVerifierDirError",
        r"RewardModel\w*Error",
        r"JudgeError",
    ),
)
_CONTEXT = _words(
    *(r"context[ _-]?(?:length|window|limit|size)?[ _-]?(?:exceeded|overflow|full)", r"Context\w*Exceeded"),
    *(r"maximum context length", r"(?:prompt|input|request) (?:is )?too (?:long|large)", r"max_total_tokens"),
    *(r"exceeds? the (?:model'?s )?(?:maximum )?context", r"max_seq(?:uence)?_len"),
)
_CALL = _words(
    *(r"(?:malformed|invalid|unparsable|could not parse|failed to parse|error parsing|cannot parse)\b"
      r".{0,40}\b(?:tool|function|call|arguments?|action|json)",
      r"JSONDecodeError", r"(?:unknown|no such|unexpected|unrecognized) (?:tool|function|argument)"),
    *(r"\bformat error", r"missing \d+ required (?:positional|keyword)"),
    *(r"tool .{1,60} (?:not found|does not exist)",),
)  # fmt: skip
_REFUSAL = re.compile(
    r"\s*(?:I(?:'|’)?m (?:really |very )?sorry,? but|I am sorry,? but|Sorry,? but|I apologi[sz]e,? but)?\s*"
    r"(?:I|we) (?:can(?:'|’)t|cannot|can not|won(?:'|’)t|will not|am (?:not able|unable) to|"
    r"(?:must|have to) (?:decline|refuse))\b(?: to)? ?(?:help|assist|provide|comply|do that|continue|fulfil|"
    r"answer|support|engage|with|create|write|discuss|share)",
    re.IGNORECASE,
)
_REFUSED = _words(r"refus(?:al|ed)", r"content[ _]filter", r"safety")
#: A test harness that did not run its tests.
_HARNESS = _words(
    *(r"INTERNALERROR>", r"ERROR collecting", r"errors? during collection", r"no tests (?:ran|collected)"),
    *(r"(?:pytest|uv|uvx|python3?|bash)\S*: (?:command )?not found", r"collected 0 items"),
    *(r"could not (?:install|resolve|fetch)", r"Failed to (?:fetch|download|resolve)"),
)
_FAILED_TEST = _words(r"^✗ .*$", r"^(?:FAILED|E  ).*$", r"\d+ failed", r"AssertionError.*$")
_FAILED_TEST = re.compile(_FAILED_TEST.pattern, re.IGNORECASE | re.MULTILINE)

#: Patterns of what programs say, the most particular first: a verifier's time-out is the grader's failure.
_SAID = (
    (GRADER, _GRADER),
    (CONTEXT, _CONTEXT),
    (TIMEOUT, _TIMEOUT),
    (CALL, _CALL),
    (ENVIRONMENT, _ENVIRONMENT),
)
#: Characters of a text's ends that are searched, around found words, and of a refusal's message.
_ENDS, _AROUND, _SHORT = 4000, 60, 1200


def said_class(text: str, *, of_tool: bool = False) -> tuple[str, str] | None:
    """Return the class that the words of a program name, and these words; None if they name none.

    Parameters
    ----------
    text : str
        An error, a reason, or the result of a tool.
    of_tool : bool
        A tool's result may be about graders and refusals of the task itself; these words do not count then.
    """
    part = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    for name, pattern in _SAID:
        if of_tool and name == GRADER:
            continue
        if match := pattern.search(part):
            return name, quoted(part, match)
    if not of_tool and (match := _REFUSED.search(part)):
        return REFUSAL, quoted(part, match)
    return None


def refusal_in(text: str) -> str:
    """Return the words with which a short answer refuses; empty if it does not, or goes on for long."""
    match = _REFUSAL.match(text) if len(text) <= _SHORT else None
    return quoted(text, match) if match else ""


def harness_failure(text: str) -> str:
    """Return the words that say that a test harness did not run its tests; empty if there are none."""
    match = _HARNESS.search(text)
    return quoted(text, match) if match else ""


def failed_test(text: str) -> str:
    """Return the first line of a test log that says that a test failed; empty if there is none."""
    match = _FAILED_TEST.search(text)
    return match[0].strip()[: 2 * _AROUND] if match else ""


def quoted(text: str, match: re.Match[str]) -> str:
    """Return the found words with their surroundings on one line."""
    start, end = max(0, match.start() - _AROUND), min(len(text), match.end() + _AROUND)
    words = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{words}{'…' if end < len(text) else ''}"


# -- failure classes -----------------------------------------------------------------------------------
# Decides the class of one failure: from what is logged, else from texts, always with quoted words.


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
        One of `failure_classes.CLASSES`.
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
