"""Finds what a search looks for in the parts of a conversation, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate

#: Most hits that are found in one conversation.
MOST_HITS = 2_000
#: Tests of any place of a text; the others test its beginning, its end or all of it.
_ANYWHERE = ("contains", "matches")

#: Block, part (see `rlpanel.panels.conversation.conversation_payload.part_text`), start and end in its text.
Hit = tuple[int, str, int, int]


def hits_of(blocks: Sequence[MessageBlock], tests: Sequence[TextPredicate]) -> list[Hit]:
    """Return the places in a conversation where tests of the prompt, the response or any text pass.

    If only the text as logged passes, such as the JSON of a call, the hit is all of the text that is shown
    for it.
    """
    tests = [test for test in tests if test.word in _ANYWHERE]
    finders = {True: PlaceFinder(tests), False: PlaceFinder(tests)}
    found: list[Hit] = []
    for number, block in enumerate(blocks if tests else ()):
        field = "prompt" if block.given else "response"
        for part, text, logged in _parts(block):
            finder = finders[block.given]
            places = finder.places(field, text)
            if not places and logged and logged != text and finder.places(field, logged):
                places = [(0, len(text))]
            found += ((number, part, start, end) for start, end in places)
            if len(found) >= MOST_HITS:
                return found[:MOST_HITS]
    return found


def _parts(block: MessageBlock) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each part, its text, and the text as logged if that may be another."""
    yield "begun", block.begun, ""
    yield "reasoning", block.reasoning, ""
    yield "text", block.text, ""
    for number, call in enumerate(block.calls):
        yield f"call:{number}", call.text, call.logged
        if call.result is not None:
            yield f"result:{number}", call.result.text, call.result.logged
