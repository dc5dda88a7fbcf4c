"""A conversation in two lists, one for each speaker: ``{"user": [...], "assistant": [...]}``.

The function `arrange_talk` adds its messages in their order, below the key ``talk``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import Any

from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.message_spellings import role_of

#: Key of the messages.
TALK = "talk"


def arrange_talk(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with the messages of its two speakers; None if it has no such lists.

    The user's list has as many texts as the policy's, or one more.
    """
    roles = {role_of(key): key for key in document}
    if not {"user", "assistant"} <= roles.keys() or TALK in document:
        return None
    asked, answered = (to_python(document[roles[role]]) for role in ("user", "assistant"))
    if not all(map(_are_texts, (asked, answered))) or len(asked) - len(answered) not in (0, 1):
        return None
    turns = chain.from_iterable(zip_longest(asked, answered))
    messages = [
        {"role": "assistant" if at % 2 else "user", "content": text}
        for at, text in enumerate(turns)
        if text is not None
    ]
    return {**document, TALK: messages}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)
