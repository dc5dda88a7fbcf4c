"""Recognises chat templates in a prompt's text: which part of it is which turn.

The text is only divided, never changed: the turns follow one another without gaps, and each keeps the markup
around its content. All patterns are linear: they begin with a fixed string and repeat at most 60 times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rlpanel.texts import plain_dialogues
from rlpanel.texts.turn import Turn, normal_role

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
    return best or plain_dialogues.turns_of(text, start)


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
