"""Joins the prompt, the response and the messages of a sample: whichever was logged gives the others."""

from __future__ import annotations

from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.message_columns import media_columns, message_columns, turn_rewards
from rlpanel.sources.records.messages import Message, is_messages, messages_text, read_messages, response_text
from rlpanel.sources.records.record_types import Record


def join_conversation(record: Record, *, full: bool) -> None:
    """Fill in a sample's missing texts from its messages and, if ``full``, its messages from its texts.

    ``record.conversation`` holds what was logged as messages: ``prompt``, ``response``, or ``messages``,
    which is the whole conversation or the prompt alone. It is emptied. The messages of a response are counted
    as columns of the sample.
    """
    parts, record.conversation = record.conversation, {}
    if "messages" in parts:
        value = to_python(parts["messages"])
        if not is_messages(value):
            record.notes.append("'messages' is not a list of chat messages; the sample is kept without it")
            return
        whole = read_messages(value)
        count = _count_prompt(record, whole)
        parts = {"prompt": whole[:count], "response": whole[count:]}
        _set_text(record, "prompt", messages_text(parts["prompt"]))
        _set_text(record, "response", response_text(parts["response"]) if parts["response"] else "")
    if parts.get("response"):
        _count_messages(record, parts["response"], parts.get("prompt", []))
    else:
        record.numbers = media_columns(parts.get("prompt", [])) | record.numbers
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


def _count_messages(record: Record, response: list[Message], prompt: list[Message]) -> None:
    """Add the columns that the messages give; logged numbers come first."""
    columns = message_columns(response, prompt)
    if record.agent is None or record.agent.turn_rewards is None:
        rewards = turn_rewards(response)
        if rewards is not None:
            record.agent_fields().turn_rewards = rewards
    elif len(record.agent.turn_rewards) != columns["turns"]:
        record.notes.append(
            f"'turn_rewards' has {len(record.agent.turn_rewards)} values for {columns['turns']:.0f} turns"
        )
    record.numbers = columns | record.numbers


def _set_text(record: Record, name: str, text: str) -> None:
    if text and name not in record.texts:
        record.texts[name] = text
        record.numbers[f"{name}_chars"] = float(len(text))


def _as_message(record: Record, name: str, role: str) -> list[Message]:
    return [{"role": role, "content": record.texts[name]}] if name in record.texts else []
