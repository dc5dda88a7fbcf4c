"""Joins the prompt, the response and the messages of a sample: whichever was logged gives the others."""

from __future__ import annotations

from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.messages import Message, is_messages, messages_text, read_messages, response_text
from rlpanel.sources.records.record_types import Record


def join_conversation(record: Record, *, full: bool) -> None:
    """Fill in a sample's missing texts from its messages and, if ``full``, its messages from its texts.

    ``record.conversation`` holds what was logged as messages: ``prompt``, ``response``, or ``messages``,
    which is the whole conversation or the prompt alone. It is emptied.
    """
    parts, record.conversation = record.conversation, {}
    if "messages" in parts and (full or not {"prompt", "response"} <= record.texts.keys()):
        value = to_python(parts["messages"])
        if not is_messages(value):
            record.notes.append("'messages' is not a list of chat messages; the sample is kept without it")
            return
        whole = read_messages(value)
        count = _count_prompt(record, whole)
        parts = {"prompt": whole[:count], "response": whole[count:]}
        _set_text(record, "prompt", messages_text(parts["prompt"]))
        _set_text(record, "response", response_text(parts["response"]) if parts["response"] else "")
    if full:
        prompt = parts.get("prompt") or _as_message(record, "prompt", "user")
        record.messages = [*prompt, *(parts.get("response") or _as_message(record, "response", "assistant"))]
        record.prompt_messages = len(prompt)


def _count_prompt(record: Record, messages: list[Message]) -> int:
    """Return how many messages come before the response.

    The logged number, else all if the response was logged and the policy did not speak last, else those
    before the policy's first message.
    """
    if record.prompt_messages >= 0:
        return record.prompt_messages
    roles = [message["role"] for message in messages]
    if "assistant" not in roles or ("response" in record.texts and roles[-1] != "assistant"):
        return len(roles)
    return roles.index("assistant")


def _set_text(record: Record, name: str, text: str) -> None:
    if text and name not in record.texts:
        record.texts[name] = text
        record.numbers[f"{name}_chars"] = float(len(text))


def _as_message(record: Record, name: str, role: str) -> list[Message]:
    return [{"role": role, "content": record.texts[name]}] if name in record.texts else []
