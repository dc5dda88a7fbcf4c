"""Words about an agent: its calls and errors in a line, calls as written, and new plans."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rlpanel.texts.shorten import ELLIPSIS, shorten

# -- agent line ----------------------------------------------------------------------------------------
# One line that shows what an agent did: its tool calls, the last error, then its last words.
#
# Agents' responses are logged as one text. The calls are found by the markup of the chat templates, or by the
# lines that rlpanel itself writes for logged messages. Messages without calls show what the agent said in its
# turns; any other text is left as it is. Of a long text, both ends are read.


#: Most characters of a text that is searched for calls, and of an argument; most calls that are written out.
_MAX_CHARS, _ARGUMENT, _WRITTEN = 4000, 40, 2

#: A call as Hermes and Qwen write it, as Qwen Coder and Llama do, as a logged message has it, and as Mistral.
_CALL = re.compile(
    r"<tool_call>(?P<hermes>.*?)(?:</tool_call>|<\|im_end\|>|\Z)"
    r"|<function=(?P<name>[^>\s]+)>(?P<parameters>.*?)(?:</function>|\Z)"
    r"|^(?:\[assistant\] )?\[call\] (?P<line>[^\n]*)$"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>\[.*?\])(?=</s>|\s*\Z)",
    re.DOTALL | re.MULTILINE,
)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\s*(.*?)\s*(?:</parameter>|\Z)", re.DOTALL)
#: What a tool answered: up to the next message, or to the end of its markup.
_RESULT = re.compile(
    r"<tool_response>.*?(?:</tool_response>|\Z)|\[TOOL_RESULTS\].*?(?:\[/TOOL_RESULTS\]|\Z)"
    r"|^\[tool[^\]\n]*\] .*?(?=^\[(?:assistant|user|call|tool)|\Z)"
    r"|<\|im_start\|>(?:tool|user)\n.*?(?:<\|im_end\|>|\Z)",
    re.DOTALL | re.MULTILINE,
)
_RESULT_MARK = re.compile(r"</?tool_response>|\[/?TOOL_RESULTS\]|^\[tool[^\]\n]*\] ?")
#: The beginning of a logged message.
_ROLE = re.compile(r"^\[(assistant|user|system|tool)[^\]\n]*\] ", re.MULTILINE)
#: What a result that is an error begins with or names, and the characters that are looked at.
_FAILED = re.compile(r"\b(?:error|exception|traceback|timed? ?out|failed|unavailable)\b", re.IGNORECASE)
_HEAD = 80
#: Stands between the ends of a long text.
_CUT = f"\n{ELLIPSIS}\n"
#: Thoughts, and markup between messages.
_MARKUP = re.compile(
    r"<think>.*?</think>|</?think>|<\|im_start\|>[a-z]*\n?|^\[assistant\] "
    r"|<[|｜][^|｜<>\n]{1,40}[|｜]>|</?s>",
    re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r'"name"\s*:\s*"([^"]{1,80})"')


def ends_of(text: str, chars: int) -> str:
    """Return a text of at most about ``chars`` characters: of an agent's long one both ends, else the first.

    `agent_line` reads the ends again.
    """
    if len(text) <= chars or not _CALL.search(text, 0, _MAX_CHARS):
        return shorten(text, chars)
    half = chars // 2
    return f"{text[:half].rstrip()}{_CUT}{text[-half:].lstrip()}"


def agent_line(text: str, *, failed: bool = False) -> str:
    """Return a response's calls, last error and last words as one line; without a call, its turns or itself.

    Parameters
    ----------
    text : str
        A response, or what `ends_of` leaves of it.
    failed : bool
        Whether a call had an error, which the text itself need not hold.

    Examples
    --------
    >>> agent_line('<tool_call>{"name": "add", "arguments": {"a": 2, "b": 5}}</tool_call>It is 7.')
    'add(a=2, b=5) → It is 7.'
    """
    if len(text) > _MAX_CHARS:
        return text
    text, cut, end = text.partition(_CUT)
    found = list(_CALL.finditer(text))
    calls = [call for match in found for call in _calls_of(match)] or _bare_calls(text)
    if not calls:
        return ("" if cut else _turns(text)) or f"{text}{cut}{end}"
    written = calls[:_WRITTEN]
    if cut:
        written = [written[0], ELLIPSIS]
    elif len(calls) > _WRITTEN:
        written = [*written[:1], f"{len(calls) - 1} more calls"]
    if cut:
        found = list(_CALL.finditer(end))
    rest = end if cut else text
    last = _words(rest[found[-1].end() :] if found else rest) if found or cut else ""
    parts = [", ".join(written), _error(rest) or "✗ error" * failed, last]
    return " → ".join(part for part in parts if part)


def without_markup(text: str) -> str:
    """Return a text as one line without thoughts, roles and special tokens; the text if it has no more."""
    return " ".join(_MARKUP.sub(" ", text).split()) or text


def _turns(text: str) -> str:
    """Return what an agent without tools said in its first and last turn; empty if the text has one turn."""
    parts = _ROLE.split(text)
    turns = zip(parts[1::2], parts[2::2], strict=True)
    said = [without_markup(words) for role, words in turns if role == "assistant"]
    if parts[0].strip() or len(said) < 2:
        return ""
    between = [f"{len(said) - 2} more turn{'s' * (len(said) > 3)}"] if len(said) > 2 else []
    return " → ".join([_short(said[0]), *between, said[-1]])


def _error(text: str) -> str:
    """Return the beginning of the last result, if it reads like an error."""
    results = _RESULT.findall(text)
    words = " ".join(_MARKUP.sub(" ", _RESULT_MARK.sub("", results[-1])).split()) if results else ""
    return f"✗ {_short(words)}" if _FAILED.search(words[:_HEAD]) else ""


def _calls_of(match: re.Match[str]) -> list[str]:
    """Return the calls that a piece of markup holds, each as a text."""
    if match["name"]:
        named = dict(_PARAMETER.findall(match["parameters"]))
        return [_call(match["name"], named or _parsed(match["parameters"]))]
    if match["line"] is not None:
        name, _, arguments = match["line"].partition("(")
        return [_call(name, _parsed(arguments.removesuffix(")")))]
    inside = match["hermes"] if match["hermes"] is not None else match["mistral"]
    nested = _CALL.match(inside.strip()) if match["hermes"] is not None else None
    return _calls_of(nested) if nested else _json_calls(inside)


def _bare_calls(text: str) -> list[str]:
    """Return the call that a whole text is as JSON; some templates have no markup for calls."""
    stripped = _MARKUP.sub("", text).strip()
    starts = stripped.startswith('{"name"') and ('"arguments"' in stripped or '"parameters"' in stripped)
    return _json_calls(stripped) if starts else []


def _json_calls(text: str) -> list[str]:
    value = _parsed(text)
    items = value if isinstance(value, list) else [value]
    calls = [_of_object(item) for item in items if isinstance(item, dict)]
    if calls:
        return calls
    name = _NAME.search(text)
    return [f"{name[1]}(unreadable arguments)" if name else f"unreadable call {_short(text)}".rstrip()]


def _of_object(item: dict[str, Any]) -> str:
    function = item.get("function")
    item = function if isinstance(function, dict) else item
    arguments = item.get("arguments", item.get("parameters", {}))
    return _call(str(item.get("name", "?")), _parsed(arguments) if isinstance(arguments, str) else arguments)


def _call(name: str, arguments: Any) -> str:
    """Return a call as Python writes one."""
    if isinstance(arguments, dict):
        inside = ", ".join(f"{_short(key)}={_short(_value(value))}" for key, value in arguments.items())
    else:
        inside = _short(_value(arguments)) if arguments not in ("", None) else ""
    return f"{_short(name)}({inside})"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _ARGUMENT, within=True)


def _words(text: str) -> str:
    """Return what the agent says in the rest of a response, without results, thoughts and markup."""
    return " ".join(_MARKUP.sub(" ", _RESULT.sub("\n", text)).split())


def _parsed(text: str) -> Any:
    """Return a JSON text's value, else the text."""
    try:
        return json.loads(text) if text.strip() else ""
    except (ValueError, RecursionError):
        return text.strip()


# -- written call --------------------------------------------------------------------------------------
# Tool calls as a person writes them: ``add(a=5, b=1)``.


#: Most characters of a call with several arguments that stands on one line.
ONE_LINE = 120
#: What the arguments of a call begin with if they are meant to be JSON.
_OPENING = ("{", "[")


@lru_cache(maxsize=4)  # a call is asked about twice in a row, and its arguments may be long
def _parsed_arguments(text: str) -> Any:
    """Return a JSON text's value; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_unreadable(arguments: str) -> bool:
    """Return True for arguments that are meant to be JSON and cannot be read as such."""
    text = arguments.strip()
    return text.startswith(_OPENING) and _parsed_arguments(text) is None


def written_call(name: str, arguments: str) -> str:
    """Return a call as one line if it fits, else with a line for each argument.

    Arguments that are not a JSON object are kept as they are. A text of several lines stands between triple
    quotes, so that code can be read.

    Examples
    --------
    >>> written_call("add", '{"a": 5, "b": 1}')
    'add(a=5, b=1)'
    """
    found = _parsed_arguments(arguments)
    if not isinstance(found, dict):
        return f"{name}({arguments.strip()})"
    line = f"{name}({', '.join(f'{key}={_written_value(value)}' for key, value in found.items())})"
    has_lines = any(isinstance(value, str) and "\n" in value for value in found.values())
    if not has_lines and (len(line) <= ONE_LINE or len(found) == 1):
        return line
    inside = "".join(f"  {key}={_written(value)},\n" for key, value in found.items())
    return f"{name}(\n{inside})"


def _written(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f'"""\n{value.rstrip()}\n"""'
    line = _written_value(value)
    return line if len(line) <= ONE_LINE else _written_value(value, indent=2).replace("\n", "\n  ")


def _written_value(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


# -- plan changes --------------------------------------------------------------------------------------
# Turns in which an agent begins a new plan, by its words or by its tools: an estimate.


#: Earlier turns with calls, whose tools the turn's tools are compared with.
TURNS_BEFORE = 3
#: Characters of a turn that are looked through for markers.
MAX_CHARACTERS = 20_000
#: Words that begin a new plan where they begin a sentence or a line.
_MARKERS = (
    r"wait\b|actually\b|alternatively\b|instead,|on second thoughts?\b|new plan\b|plan b\b|change of plan\b"
    r"|(?:let me|let's|i(?:'ll| will| should)) (?:instead|rethink|reconsider|start over|step back"
    r"|(?:try|use|take) (?:a different|another|something else))"
    r"|(?:a different|another) approach\b|(?:that|this|it) (?:did not|didn't|does not|doesn't) work\b"
    r"|等等|等一下|不对|换(?:一种|一个|个)|重新"
)
_NEW_PLAN = re.compile(
    rf"(?:^|[.!?:\n。！？]\s*)(?:hmm,?\s+|but\s+|so\s+|okay,?\s+|no,\s+)?({_MARKERS})", re.IGNORECASE
)


class PlanChange(NamedTuple):
    """Why a turn counts as a new plan.

    Attributes
    ----------
    kind : str
        ``words`` or ``tools``.
    evidence : str
        The words as they stand in the turn, or the tools of the turn.
    """

    kind: str
    evidence: str


def plan_changes(turns: Sequence[tuple[str, Sequence[str]]]) -> list[PlanChange | None]:
    """Return for each turn of the policy why it begins a new plan; None where it does not.

    A turn begins a new plan if a sentence of it begins with a marker, such as *Wait*, *Actually* or *Let me
    try another*; or if it calls tools, and none of those that the three turns with calls before it called.
    The first turn has nothing before it.

    Parameters
    ----------
    turns : sequence of (str, sequence of str)
        Words of each turn, and the names of the tools that it calls.
    """
    found: list[PlanChange | None] = []
    before: list[frozenset[str]] = []
    for at, (words, tools) in enumerate(turns):
        change = None
        marker = _NEW_PLAN.search(words, 0, MAX_CHARACTERS) if at else None
        if marker is not None:
            change = PlanChange("words", marker[1])
        elif tools and len(before) >= TURNS_BEFORE and not frozenset().union(*before) & {*tools}:
            change = PlanChange("tools", ", ".join(dict.fromkeys(tools)))
        if tools:
            before = [*before, frozenset(tools)][-TURNS_BEFORE:]
        found.append(change)
    return found
