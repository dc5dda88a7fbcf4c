"""Reads the content of a chat message: a text, or parts that are texts, reasoning, calls, results or media.

Parts are known by their type (``{"type": "tool_use", …}``: Anthropic, OpenAI, LangChain, Vercel) or, without
one, by their only key (``{"functionCall": {…}}``: Gemini, Bedrock).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlpanel.sources.records.embedded_media import (
    MAX_URL,
    Image,
    Medium,
    frames_of,
    is_image_part,
    played_kind,
    read_image,
    read_medium,
    typed_medium,
    without_embedded,
)
from rlpanel.sources.records.message_spellings import PART_OF, names_of
from rlpanel.sources.records.tool_calls import ToolCall, calls_in, first_of, plain_text

_TEXTS = ("text", "input_text", "output_text", "refusal")
#: Keys of a part or an object that is reasoning.
_REASONING = ("thinking", "reasoning", "text", "content", "summary", "reasoningText")
_RESULTS, _RESULT_IDS, _RESULT_NAMES = (names_of("result", means) for means in ("content", "id", "name"))


@dataclass
class MessageContent:
    """Texts, media, calls and results in the content of a message.

    Attributes
    ----------
    texts : list of str
        In order, with a mark for each medium.
    reasoning : list of str
    calls : list of ToolCall
    results : list of dict
        Results of tools as chat messages: Anthropic and Gemini write them into a message of the user.
    images : list of Image
    media : list of Medium
    """

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    media: list[Medium] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The texts, one below the other."""
        return "\n".join(filter(None, self.texts))


def read_content(content: Any) -> MessageContent:
    """Return what a message's content holds; a part that is nothing of it becomes a text, as JSON."""
    found = MessageContent()
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):  # ChatGPT's export
        content = content["parts"]
    for part in content if isinstance(content, list) else [content]:
        if type(part) is dict or isinstance(part, Mapping):
            _add_part(found, part)
        else:
            found.texts.append(without_embedded(plain_text(part)))
    return found


def reasoning_text(value: Any) -> str:
    """Return reasoning as text: of a text, of an object with one, or of a list of either."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(reasoning_text, value)))
    if not isinstance(value, Mapping):
        return ""
    if PART_OF.get(str(value.get("type"))) == "hidden":
        return f"[{value['type']}]"
    return next(filter(None, (reasoning_text(value.get(key)) for key in _REASONING)), "")


def _add_part(found: MessageContent, part: Mapping[str, Any]) -> None:
    kind = part.get("type")
    if kind == "text" and type(part.get("text")) is str:  # most parts
        found.texts.append(without_embedded(part["text"]))
        return
    inner: Any = part
    means = None
    if isinstance(kind, str):
        means = PART_OF.get(kind)
    elif kind is None:
        key = next((key for key in part if key in PART_OF and part[key] is not None), None)
        if key is not None:
            means, inner = PART_OF[key], part[key]
        elif part.get("thought") is True:  # Gemini
            means = "reasoning"
    if means is None or not (isinstance(inner, Mapping) or means == "reasoning"):
        _add_shown(found, part)
    elif means == "call":
        found.calls += calls_in(inner)
    elif means == "result":
        found.results.append(_result(inner))
    else:
        found.reasoning.append(f"[{kind}]" if means == "hidden" else reasoning_text(inner))


def _result(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result as a message; one that failed may say so itself."""
    content = first_of(part, _RESULTS)
    found = {
        "role": "tool",
        "content": plain_text(content) if isinstance(content, Mapping) else content,
        "tool_call_id": first_of(part, _RESULT_IDS),
        "name": first_of(part, _RESULT_NAMES),
        "is_error": first_of(part, ("is_error", "isError")),
        "status": part.get("status"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _add_shown(found: MessageContent, part: Mapping[str, Any]) -> None:
    """Add a part: a text or a medium as such, any other as JSON; of a long medium only the type."""
    keys = (*_TEXTS, "content") if part.get("type") == "text" else _TEXTS  # OpenTelemetry
    text = next((part[key] for key in keys if isinstance(part.get(key), str)), None)
    if text is not None:
        found.texts.append(without_embedded(text))
        return
    if "type" not in part:
        part = typed_medium(part)
    if is_image_part(part):
        found.images.append(read_image(part))
        found.texts.append("[image]")
    elif kind := played_kind(part):
        frames = frames_of(part)
        found.images += frames
        found.media += [] if frames else [read_medium(part, kind)]
        found.texts.append(f"[{kind}]")
    else:
        text = without_embedded(plain_text(part))
        found.texts.append(text if len(text) <= MAX_URL else f"[{part.get('type', 'part')}]")
