"""Recognises the turns of a prompt's text: by a chat template, or by roles on lines of their own (``User:``).

The text is only divided, never changed: the turns follow one another without gaps, and each keeps the markup
around its content. All patterns are linear: they begin with a fixed string and repeat at most 60 times.

Words such as ``user`` also occur in ordinary texts. So a text without special tokens counts as a conversation
only if it asks the assistant for the next turn at its end, and user and assistant take turns before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

#: Names of roles in templates → the common name; other names stay.
_COMMON = {
    "user": ("human", "question", "q", "problem", "instruction", "[inst]", "<</sys>>"),
    "assistant": ("bot", "chatbot", "gpt", "model", "answer", "a", "solution", "response", "[/inst]"),
    "system": ("[system_prompt]",),
    "tool": (
        *("function", "functions", "observation", "ipython", "tool▁outputs▁begin", "[tool_results]"),
        *("[available_tools]", "tool_response"),
    ),
}
_COMMON_NAME = {name: role for role, names in _COMMON.items() for name in names}


@dataclass(frozen=True)
class Turn:
    """One turn. All positions are characters of the prompt's text.

    Attributes
    ----------
    role : str
        Such as user, assistant, system, developer or tool.
    start, end : int
        The turn with its markup; the next turn begins at ``end``.
    begin, finish : int
        Its content without markup.
    lead : bool
        Whether it is text before the first header.
    """

    role: str
    start: int
    begin: int
    finish: int
    end: int
    lead: bool = False


def normal_role(name: str) -> str:
    """Return the common name of a role: ``user`` for ``Human``, ``assistant`` for ``model``."""
    folded = name.strip().lower()
    if folded.endswith("<<sys>>") and folded.startswith("[inst]"):
        return "system"
    words = folded.removeprefix("### ").split()
    return _COMMON_NAME.get(words[0], words[0]) if words else "?"


#: Maximum number of characters of the assistant's last turn, which the response continues: ``<think>`` or
#: "Let me solve this step by step."
_MAX_BEGUN = 200

_NAMES = "system|developer|user|assistant|model|tool|ipython"
_SPACE = r"[ \t]{0,4}"


@dataclass(frozen=True)
class _Style:
    """A way to write turns: the header's pattern, and where a header may stand.

    Attributes
    ----------
    ends : tuple of str
        Names of the assistant's header, one of which must stand near the end.
    anywhere : bool
        Whether a header may follow the last character of the turn before, though not a space.
    inline : bool
        Whether a header may follow a sentence and a space.
    whole : bool
        Whether the text must begin with a header; otherwise what comes first is a system prompt.
    """

    header: re.Pattern[str]
    ends: tuple[str, ...]
    anywhere: bool = False
    inline: bool = False
    whole: bool = False

    def may_stand(self, text: str, at: int) -> bool:
        before = text[max(at - 2, 0) : at]
        if not before or before[-1] == "\n":
            return True
        if self.anywhere:
            return not before[-1].isspace()
        return self.inline and before[-1] == " " and before[0] in ".!?>。"


STYLES = (
    # ChatML and Gemma, decoded without special tokens.
    _Style(re.compile(rf"(?P<role>{_NAMES}){_SPACE}(?:\n|\Z)"), ("assistant", "model"), whole=True),
    # Llama 3, decoded without special tokens.
    _Style(re.compile(rf"(?P<role>{_NAMES})\n\n"), ("assistant",), anywhere=True, whole=True),
    # Anthropic's HH, TinyZero, R1-Zero, Vicuna.
    _Style(
        re.compile(rf"(?P<role>Human|User|USER|Assistant|ASSISTANT):{_SPACE}\n?"),
        ("Assistant:", "ASSISTANT:"),
        inline=True,
    ),
    _Style(
        re.compile(rf"(?P<role>Question|Problem|Answer|Solution|Q|A):{_SPACE}\n?"),
        ("Answer:", "Solution:", "A:"),
    ),
    # Alpaca.
    _Style(
        re.compile(rf"(?P<role>### (?:Instruction|Human|User|Response|Assistant)):{_SPACE}\n?"),
        ("### Response:", "### Assistant:"),
    ),
)


def dialogue_turns(text: str, start: int) -> list[Turn]:
    """Return the turns of a conversation without special tokens; empty if the text is none.

    Parameters
    ----------
    start : int
        Position of the first character after tokens that begin a sequence.
    """
    tail = text.rstrip()[-_MAX_BEGUN - 40 :]
    for style in STYLES:
        if any(name in tail for name in style.ends):
            turns = list(_turns(style, text, start))
            if _is_conversation(turns, text) and not (style.whole and turns[0].lead):
                return turns
    return []


def _turns(style: _Style, text: str, start: int) -> Iterator[Turn]:
    found = style.header.finditer(text, start)
    headers = [header for header in found if style.may_stand(text, header.start())]
    if not headers:
        return
    first = headers[0].start()
    if first > start:
        yield Turn("system", 0, start, first, first, lead=True)
    bounds = [*(header.start() for header in headers[1:]), len(text)]
    for number, (header, end) in enumerate(zip(headers, bounds, strict=True)):
        begun = 0 if number == 0 and first <= start else header.start()
        finish = header.end() + len(text[header.end() : end].rstrip())
        yield Turn(normal_role(header["role"]), begun, header.end(), finish, end)


def _is_conversation(turns: list[Turn], text: str) -> bool:
    """Return whether the assistant's turn is asked for, and nobody has two turns in a row."""
    roles = [turn.role for turn in turns]
    if "user" not in roles or roles[-1] != "assistant":
        return False
    if len(text[turns[-1].begin :].strip()) > _MAX_BEGUN:
        return False
    speakers = all(one != other for one, other in pairwise(roles) if one in ("user", "assistant"))
    return speakers and not {"system", "developer"} & {*roles[roles.index("user") :]}


_ROLES = "system|developer|user|human|assistant|bot|gpt|model|tool|function|observation|environment|ipython"
#: Role tokens as in DeepSeek, Phi, GLM, Zephyr and OLMo, with bars in ASCII or full width.
_ROLE_TOKENS = rf"(?i:{_ROLES}|tool▁outputs▁begin)"


@dataclass(frozen=True)
class ChatTemplate:
    """How a family of models marks turns.

    Attributes
    ----------
    mark : str
        A text without which no header occurs; it is searched first, because that is fast.
    header : re.Pattern
        Markup before the content of a turn. Its group ``role`` names the role.
    ends : tuple of str
        Markup after the content.
    bare_system : bool
        Whether a system prompt stands before the first header, without one of its own.
    """

    mark: str
    header: re.Pattern[str]
    ends: tuple[str, ...]
    bare_system: bool = False


#: Name of the markup that rlpanel writes when it joins messages to one text.
_OWN_MARKUP = "rlpanel's adapters"

#: Name of the family → its markup. The first family whose header begins a prompt is taken.
TEMPLATES = {
    "ChatML": ChatTemplate(
        "<|im_start|>",
        re.compile(r"<\|im_start\|>(?P<role>[^\n<|]{0,40})(?:<\|im_sep\|>|\n|\Z)"),
        ("<|im_end|>",),
    ),
    "Kimi": ChatTemplate(
        "<|im_middle|>",
        re.compile(r"<\|im_(?:system|user|assistant)\|>(?P<role>[^\n<|]{0,40})<\|im_middle\|>"),
        ("<|im_end|>",),
    ),
    "Llama 3 and 4": ChatTemplate(
        "header_",
        re.compile(
            r"<\|(?:start_header_id|header_start)\|>(?P<role>[^\n<|]{0,40})"
            r"<\|(?:end_header_id|header_end)\|>\n{0,2}"
        ),
        ("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>"),
    ),
    "Llama 2 and Mistral": ChatTemplate(
        "[INST]",
        re.compile(
            r"(?P<role>\[INST\]\s{0,4}<<SYS>>|<</SYS>>|\[/?INST\]|\[SYSTEM_PROMPT\]|\[AVAILABLE_TOOLS\]"
            r"|\[TOOL_RESULTS\])\s{0,2}"
        ),
        ("[/SYSTEM_PROMPT]", "[/AVAILABLE_TOOLS]", "[/TOOL_RESULTS]", "</s>"),
    ),
    "Gemma": ChatTemplate(
        "turn",
        re.compile(r"<(?:start_of_turn|\|turn)>(?P<role>\w{1,20})\n?"),
        ("<end_of_turn>", "<turn|>"),
    ),
    "harmony": ChatTemplate(
        "<|start|>",
        re.compile(
            r"<\|start\|>(?P<role>\w{1,20})[^\n<|]{0,60}(?:<\|channel\|>[^\n<|]{0,60})?"
            r"(?:<\|constrain\|>[^\n<|]{0,60})?(?:<\|message\|>)?"
        ),
        ("<|end|>", "<|call|>", "<|return|>"),
    ),
    "Granite": ChatTemplate(
        "<|start_of_role|>",
        re.compile(r"<\|start_of_role\|>(?P<role>[^\n<|]{0,40})<\|end_of_role\|>"),
        ("<|end_of_text|>",),
    ),
    "Command": ChatTemplate(
        "<|START_OF_TURN_TOKEN|>",
        re.compile(r"<\|START_OF_TURN_TOKEN\|><\|(?P<role>[A-Z]{1,20})_TOKEN\|>"),
        ("<|END_OF_TURN_TOKEN|>",),
    ),
    "Seed": ChatTemplate("<seed:bos>", re.compile(r"<seed:bos>(?P<role>\w{1,20})\n"), ("<seed:eos>",)),
    "role tokens": ChatTemplate(
        "<",
        re.compile(rf"<[|｜](?P<role>{_ROLE_TOKENS})[|｜]>[ \t]{{0,4}}\n?"),
        ("<|end|>", "</s>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "<|end_of_sentence|>", "<|eos|>"),
        bare_system=True,
    ),
    _OWN_MARKUP: ChatTemplate(
        "[",
        # The look-behind stands after the bracket, so that the search for the bracket stays fast.
        re.compile(rf"\[(?<![^\n]\[)(?P<role>{_ROLES}|\?)\](?=[ \n]|\Z) ?"),
        (),
    ),
}

#: What may stand before the first header: tokens that begin a sequence.
_BEGINNING = re.compile(
    r"(?:\s|<s>|<bos>|<BOS_TOKEN>|\[BOS\]|\[gMASK\]|<sop>|<\|(?:begin_of_text|startoftext|bos|endoftext)\|>"
    r"|<[|｜]begin[▁_]of[▁_]sentence[|｜]>)*"
)


def turns_of(text: str) -> list[Turn]:
    """Return the turns of a prompt; empty if no chat template is recognised.

    The turns cover the text from its first to its last character.
    """
    start = _BEGINNING.match(text).end()  # type: ignore[union-attr]  # it matches an empty text
    best: list[Turn] = []
    for template in TEMPLATES.values():
        turns = _parse(template, text, start) if template.mark in text else []
        if turns and not turns[0].lead:
            return turns
        if turns and turns[-1].role == "assistant" and (not best or turns[0].end < best[0].end):
            best = turns
    return best or dialogue_turns(text, start)


def continued_turns(text: str) -> list[Turn]:
    """Return the turns of a response that continues the assistant's turn; empty if it has no other turn.

    Only the markup of a template counts: names of roles that the model wrote as plain text do not.
    """
    for name, template in TEMPLATES.items():
        if name == _OWN_MARKUP or template.mark not in text:
            continue
        turns = _parse(template, text, 0)
        if turns and turns[0].lead:
            first = turns[0]
            found = [place for mark in template.ends if (place := text.find(mark, 0, first.end)) >= 0]
            finish = min(found, default=first.end)
            turns[0] = replace(first, role="assistant", begin=0, finish=len(text[:finish].rstrip()))
        if len(turns) > 1:
            return turns
    return _turns_around_results(text)


def open_turn(text: str) -> Turn | None:
    """Return the turn that a prompt's text ends in without closing it; None if there is none.

    Only the markup of a template counts: nothing tells where a turn of a plain dialogue ends.
    """
    turns = turns_of(text)
    if not turns or text[turns[-1].finish : turns[-1].end].strip():
        return None
    last = turns[-1]
    marked = (
        template.header.match(text, last.start) for name, template in TEMPLATES.items() if name != _OWN_MARKUP
    )
    return last if last.begin < last.finish and any(marked) else None


#: Results of tools in a text without its special tokens: of each header, the name of the role may be left.
_RESULTS = re.compile(
    r"(?:\n?(?:user|tool)\n)?<tool_response>.*?(?:</tool_response>|\Z)"
    r"(?:\s{0,4}<tool_response>.*?(?:</tool_response>|\Z))*(?:\s{0,4}assistant\n)?",
    re.DOTALL,
)


def _turns_around_results(text: str) -> list[Turn]:
    """Return turns of the assistant and of tools, divided at ``<tool_response>``; empty without one."""
    turns: list[Turn] = []
    last = 0
    for match in _RESULTS.finditer(text):
        if text[last : match.start()].strip():
            turns.append(Turn("assistant", last, last, match.start(), match.start()))
        turns.append(Turn("tool", match.start(), match.start(), match.end(), match.end()))
        last = match.end()
    if turns and text[last:].strip():
        turns.append(Turn("assistant", last, last, len(text), len(text)))
    return turns


def _parse(template: ChatTemplate, text: str, start: int) -> list[Turn]:
    """Return the turns of one template; what stands before the first header is a turn that leads."""
    headers = [*template.header.finditer(text)]
    if not headers:
        return []
    bounds = [*(header.start() for header in headers[1:]), len(text)]
    turns = [_turn(template, text, header, end) for header, end in zip(headers, bounds, strict=True)]
    first = headers[0].start()
    if first <= start:
        return [replace(turns[0], start=0), *turns[1:]]
    role = "system" if template.bare_system else "earlier text"
    return [Turn(role, 0, start, first, first, lead=True), *turns]


def _turn(template: ChatTemplate, text: str, header: re.Match[str], end: int) -> Turn:
    begin = min(header.end(), end)
    found = [place for mark in template.ends if (place := text.find(mark, begin, end)) >= 0]
    finish = begin + len(text[begin : min(found, default=end)].rstrip())
    role = normal_role(header["role"])
    if role == "user" and text.startswith("<tool_response>", begin):
        role = "tool"  # as Qwen writes the results of tools
    return Turn(role, header.start(), begin, finish, end)
