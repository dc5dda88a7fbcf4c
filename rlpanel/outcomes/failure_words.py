"""Words by which texts name a class of failure, and the words that were found, as evidence.

The patterns are those of messages that programs write: Python's and Docker's errors, HTTP's statuses, names
of the exceptions of Harbor (0.26.0) and verifiers (0.4.0), and of inference servers such as vLLM.
"""

from __future__ import annotations

import re

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
