"""The conversation of a sample as text: a line with each role, reasoning, calls and results."""

from __future__ import annotations

from rich.text import Text

from rlpanel.analysis.text_turns import Conversation
from rlpanel.terminal_ui.safe_cells import block, text_cell
from rlpanel.texts.written_call import written_call

_COLORS = {"user": "blue", "assistant": "green", "system": "magenta", "tool": "yellow"}


def conversation_text(conversation: Conversation) -> Text:
    """Return the messages in order, each under its role.

    Parameters
    ----------
    conversation : Conversation
    """
    found = Text(overflow="fold")
    for at, message in enumerate(conversation.messages):
        if at == conversation.prompt_messages:
            found.append("──── response ────\n", "bold")
        role = str(message["role"])
        found.append_text(text_cell(role.upper(), f"bold {_COLORS.get(role, 'cyan')}", 80))
        found.append("\n")
        if reasoning := message.get("reasoning_content"):
            found.append_text(block(str(reasoning), "dim italic"))
            found.append("\n")
        if content := message.get("content"):
            found.append_text(block(str(content)))
            found.append("\n")
        for call in message.get("tool_calls") or ():
            found.append_text(block(f"→ {written_call(str(call['name']), str(call['arguments']))}", "yellow"))
            found.append("\n")
        for key in ("images", "media"):
            if message.get(key):
                found.append(f"[{len(message[key])} {key}, shown on the board]\n", "dim")
        found.append("\n")
    if conversation.from_text:
        found.append("The turns were found in the texts by the markup of the chat template.", "dim")
    return found if conversation.messages else Text("No text is logged for this sample", "dim")
