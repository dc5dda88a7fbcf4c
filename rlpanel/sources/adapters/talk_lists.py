"""A conversation that is kept in lists of texts, and not as messages.

There may be a list for each speaker, ``{"user": [...], "assistant": [...]}``, or one list of lines that begin
with the speaker: ``["User: hello", "Agent (12:30): yes?"]``. An object may hold one speech under the name of
each turn, ``{"speeches": {"opening": "...", "reply": "..."}}``: both sides are models then, so that all its
turns are the policy's. The function `arrange_talk` adds the messages in
their order, below the key ``talk``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, starmap, zip_longest
from typing import Any

from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.message_spellings import ROLE_OF, role_of

#: Key of the messages.
TALK = "talk"
#: Beginning of a line with its speaker, and perhaps the time.
_SPEAKER = re.compile(r"\s*([A-Za-z][\w -]{0,23}?)\s*(?:\([^()\n]{1,40}\))?\s*:\s", re.ASCII)
#: Keys of an object with the texts of a debate, fewest of them, and the length of half of them at least.
_SPEECHES = re.compile(r"speeches|utterances|debate|dialogue|transcript|statements", re.IGNORECASE)
_MIN_SPEECHES, _SPEECH_CHARS = 3, 80
#: Most speakers of a conversation, and most lines.
_MAX_SPEAKERS, _MAX_LINES = 4, 10_000


def arrange_talk(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with the messages of its speakers; None if it has no such lists.

    The user's list has as many texts as the policy's, or one more. Lines have two to four speakers, one of
    whom is the policy.
    """
    if TALK in document:
        return None
    messages = _of_two_lists(document) or next(filter(None, map(_of_lines, document.values())), None)
    messages = messages or next(filter(None, starmap(_of_speeches, document.items())), None)
    return None if messages is None else {**document, TALK: messages}


def _of_two_lists(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    roles = {role_of(key): key for key in document}
    if not {"user", "assistant"} <= roles.keys():
        return None
    asked, answered = (to_python(document[roles[role]]) for role in ("user", "assistant"))
    if not all(map(_are_texts, (asked, answered))) or len(asked) - len(answered) not in (0, 1):
        return None
    turns = chain.from_iterable(zip_longest(asked, answered))
    return [
        {"role": "assistant" if at % 2 else "user", "content": text}
        for at, text in enumerate(turns)
        if text is not None
    ]


def _of_speeches(key: str, value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of an object of speeches, by its key; None for any other value."""
    if _SPEECHES.search(key) is None or not hasattr(value, "keys") or len(value) > _MAX_LINES:
        return None
    turns = {name: text for name, text in to_python(value).items() if text is not None}
    texts = [text for text in turns.values() if isinstance(text, str)]
    long = sum(len(text) >= _SPEECH_CHARS for text in texts)
    if len(texts) != len(turns) or len(turns) < _MIN_SPEECHES or 2 * long < len(turns):
        return None
    return [{"role": "assistant", "name": name, "content": text} for name, text in turns.items()]


def _of_lines(value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of lines that all begin with a speaker; None for any other value."""
    if not (isinstance(value, list) or hasattr(value, "as_list")):
        return None
    lines = to_python(value)
    if not _are_texts(lines) or not 1 < len(lines) <= _MAX_LINES:
        return None
    found = [_SPEAKER.match(line) for line in lines]
    names = [match[1] for match in found if match is not None]
    if len(names) != len(lines) or not _are_speakers(names):
        return None
    return [
        {"role": ROLE_OF.get(name.lower(), "user"), "name": name, "content": line[match.end() :]}
        for name, line, match in zip(names, lines, found, strict=True)
        if match is not None
    ]


def _are_speakers(names: Sequence[str]) -> bool:
    """Return True for two to four speakers, one of whom is the policy, and who speak again."""
    speakers = set(names)
    policies = [name for name in speakers if ROLE_OF.get(name.lower()) == "assistant"]
    return 1 < len(speakers) <= _MAX_SPEAKERS and len(policies) == 1 and names.count(policies[0]) > 1


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)
