"""A turn of a conversation inside a prompt's text, and the names of roles."""

from __future__ import annotations

from dataclasses import dataclass

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
