"""Finds what a search looks for in the parts of a conversation, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.store.query.text_predicate import ANY, PlaceFinder, TextPredicate, fold

#: Most hits that are found in one conversation.
MAX_HITS = 2_000
#: Tests of any place of a text; the others test its beginning, its end or all of it.
_ANYWHERE = ("contains", "matches")
#: Characters of markup, such as ``</think>``, that may stand between two parts of a text.
_MARKUP = 40
_AT_AN_END = ("startswith", "endswith", "==")

#: Block, part (see `rlpanel.panels.conversation.conversation_payload.part_text`), start and end in its text.
Hit = tuple[int, str, int, int]


def hits_of(
    blocks: Sequence[MessageBlock], tests: Sequence[TextPredicate], texts: Mapping[str, str] | None = None
) -> list[Hit]:
    """Return the places in a conversation where tests of the prompt, the response or any text pass.

    If only the text as logged passes, such as the JSON of a call, the hit is all of the text that is shown
    for it.

    Parameters
    ----------
    blocks : sequence of MessageBlock
    tests : sequence of TextPredicate
    texts : mapping, optional
        The sample's texts as logged, by name. Tests of the beginning, of the end and of all of a text are
        tests of these.
    """
    anywhere = [test for test in tests if test.word in _ANYWHERE]
    finders = {True: PlaceFinder(anywhere), False: PlaceFinder(anywhere)}
    at_ends = _hits_at_ends(blocks, tests, texts or {})
    found: list[Hit] = []
    for number, block in enumerate(blocks if anywhere or at_ends else ()):
        field = "prompt" if block.given else "response"
        for part, text, logged in _parts(block):
            finder = finders[block.given]
            places = finder.places(field, text)
            if not places and logged and logged != text and finder.places(field, logged):
                places = [(0, len(text))]
            places += at_ends.get((number, part), ())
            found += ((number, part, start, end) for start, end in _apart(places))
            if len(found) >= MAX_HITS:
                return found[:MAX_HITS]
    return found


def _hits_at_ends(
    blocks: Sequence[MessageBlock], tests: Sequence[TextPredicate], texts: Mapping[str, str]
) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """Return what tests of the beginning, of the end or of all of a text find, by block and part."""
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for test in tests:
        for field in ("prompt", "response") if test.word in _AT_AN_END and test.value else ():
            if test.field not in (ANY, field) or not test.passes(texts.get(field)):
                continue
            parts = [
                (number, part, text)
                for number, block in enumerate(blocks)
                if block.given == (field == "prompt")
                for part, text, _ in _parts(block)
                if text
            ]
            for number, part, start, end in _covered(parts, test):
                found.setdefault((number, part), []).append((start, end))
    return found


def _covered(parts: Sequence[tuple[int, str, str]], test: TextPredicate) -> Iterator[Hit]:
    """Yield the places of a tested beginning or end of a text in the parts that are shown.

    Between the parts the text has markup that is not shown. A part that is written otherwise than in the
    text, such as a call, is a hit as a whole.
    """
    if test.word == "==":
        yield from ((number, part, 0, len(text)) for number, part, text in parts)
        return
    backwards, rest = test.word == "endswith", fold(test.value)
    for number, part, text in reversed(parts) if backwards else parts:
        folded = fold(text)
        at = rest.rfind(folded) if backwards else rest.find(folded)
        if at < 0:
            sizes = map(partial(_shared, folded, rest, backwards), range(_MARKUP))
            size = next(filter(None, sizes), len(text))
            start = len(text) - size if backwards else 0
            yield number, part, start, start + size
            return
        yield number, part, 0, len(text)
        rest = rest[:at].rstrip() if backwards else rest[at + len(folded) :].lstrip()
        if not rest:
            return


def _shared(shown: str, asked: str, backwards: bool, skipped: int) -> int:
    """Return the length of what is asked, without some of its first characters, if the text begins with it.

    Backwards: without some of its last ones, if it ends with it. 0 if it does not.
    """
    rest = asked[: len(asked) - skipped] if backwards else asked[skipped:]
    return len(rest) if rest and (shown.endswith(rest) if backwards else shown.startswith(rest)) else 0


def _apart(places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield places in order, without those that overlap an earlier one."""
    last = -1
    for start, end in sorted(places):
        if start >= last:
            yield start, end
            last = end


def _parts(block: MessageBlock) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each part, its text, and the text as logged if that may be another."""
    yield "begun", block.begun, ""
    yield "reasoning", block.reasoning, ""
    yield "text", block.text, ""
    for number, call in enumerate(block.calls):
        yield f"call:{number}", call.text, call.logged
        if call.result is not None:
            yield f"result:{number}", call.result.text, call.result.logged
