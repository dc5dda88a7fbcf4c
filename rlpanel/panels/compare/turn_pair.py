"""Two rollouts of one prompt, aligned by turns, and side by side as HTML from where they part."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.number_text import number
from rlpanel.panels.compare.text_diff import DiffSide, align, diff_html, head_html, marked_pair
from rlpanel.panels.conversation.blocks import MessageBlock, TurnTokens, blocks_of
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.tokens.token_view import decoded_tokens
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.texts.prompt_parts import TextStyle
from rlpanel.texts.shorten import one_line, shorten

# -- turn alignment ------------------------------------------------------------------------------------
# Aligns the turns of two rollouts of one prompt, and says where and how they part.
#
# Two turns are the same if the policy did the same: the same calls with the same outcome, or, without calls,
# the same text. Policies that sample hardly ever repeat their reasoning word for word.


#: Ways in which two rollouts part, from the coarsest on.
ENDS = marked("one of them ends here")
OTHER_ROLE = marked("another speaker")
CALLS = marked("only one of them calls a tool")
OTHER_TOOL = marked("another tool")
OTHER_ARGUMENTS = marked("other arguments")
OTHER_OUTCOME = marked("the same call, which fails in one of them")
OTHER_WORDS = marked("other words")


class TurnRow(NamedTuple):
    """Messages that stand beside each other, by their positions; None beside a message that is alone."""

    left: int | None
    right: int | None
    same: bool


@dataclass(frozen=True)
class TurnTotals:
    """Numbers of some of a rollout's messages; NaN where nothing is logged."""

    turns: int
    calls: int
    failed: int
    reward: float
    seconds: float


@dataclass(frozen=True)
class TurnAlignment:
    """The responses of two rollouts beside each other.

    Attributes
    ----------
    left, right : list of MessageBlock
        Messages of the two responses; results stand beside their calls.
    rows : list of TurnRow
        Every message of both sides, in order.
    parting : int or None
        Position of the first message that is not the same, which is equal on both sides and the number of
        rows before it; None if all are the same.
    words : int or None
        Position of the first message before the parting whose words or results differ; None if none does.
    whole : bool
        False if the messages after the parting were too many and too similar to align.
    """

    left: list[MessageBlock]
    right: list[MessageBlock]
    rows: list[TurnRow]
    parting: int | None
    words: int | None
    whole: bool

    @property
    def reason(self) -> str:
        """How the rollouts part; empty if they do not."""
        if self.parting is None:
            return ""
        here, there = self.left[self.parting :], self.right[self.parting :]
        return _difference(here[0], there[0]) if here and there else ENDS


def response_blocks(sample: Sample, pad_token: str = "") -> list[MessageBlock]:
    """Return the messages of a sample's response, as the conversation shows them."""
    texts = () if sample.messages else decoded_tokens(sample, pad_token).texts
    conversation = conversation_of(sample, texts)
    tokens = TurnTokens([None] * len(conversation.response))
    return [block for block in blocks_of(sample, conversation, tokens) if not block.given]


def has_several(blocks: Sequence[MessageBlock]) -> bool:
    """Return True if a response is more than one text."""
    return len(blocks) > 1 or any(block.calls for block in blocks)


def align_turns(left: list[MessageBlock], right: list[MessageBlock]) -> TurnAlignment:
    """Align the messages of two responses."""
    sections, whole = align([_deed(block) for block in left], [_deed(block) for block in right])
    rows = []
    for same, here, there in sections:
        pairs = zip_longest(range(here.start, here.stop), range(there.start, there.stop))
        rows += [TurnRow(a, b, same) for a, b in pairs]
    parting = next((place for place, row in enumerate(rows) if not row.same), None)
    words = (place for place in range(len(rows[:parting])) if _words(left[place]) != _words(right[place]))
    return TurnAlignment(left, right, rows, parting, next(words, None), whole)


def totals(blocks: Iterable[MessageBlock]) -> TurnTotals:
    """Return the numbers of some messages."""
    blocks = list(blocks)
    calls = [call for block in blocks for call in block.calls]
    results = [call.result for call in calls if call.result is not None]
    seconds = [*(block.seconds for block in blocks), *(result.seconds for result in results)]
    return TurnTotals(
        turns=sum(block.turn > 0 for block in blocks),
        calls=len(calls),
        failed=sum(result.error for result in results) + sum(block.error for block in blocks),
        reward=_sum(block.reward for block in blocks),
        seconds=_sum(seconds),
    )


def _sum(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) if known else math.nan


def _outcome(block: MessageBlock) -> tuple[bool, ...]:
    return tuple(call.result is not None and call.result.error for call in block.calls)


def _turn_tools(block: MessageBlock) -> tuple[str, ...]:
    return tuple(call.name for call in block.calls)


def _deed(block: MessageBlock) -> Hashable:
    """Return what is equal for two messages that do the same."""
    if block.calls:
        return block.role, tuple((call.name, call.arguments) for call in block.calls), _outcome(block)
    return block.role, block.name, block.text.strip(), block.error


def _words(block: MessageBlock) -> Hashable:
    results = tuple(call.result.text for call in block.calls if call.result is not None)
    return block.reasoning.strip(), block.text.strip(), results


def _difference(here: MessageBlock, there: MessageBlock) -> str:
    tests: list[tuple[str, Callable[[MessageBlock], Hashable]]] = [
        (OTHER_ROLE, lambda block: block.role),
        (CALLS, lambda block: bool(block.calls)),
        (OTHER_TOOL, _turn_tools),
        (OTHER_ARGUMENTS, lambda block: tuple(call.arguments for call in block.calls)),
        (OTHER_OUTCOME, _outcome),
    ]
    return next((reason for reason, of in tests if of(here) != of(there)), OTHER_WORDS)


# -- turn pair -----------------------------------------------------------------------------------------
# Two rollouts of several turns side by side as HTML, from the turn on where they part.


#: Most characters of one text, and of all texts together; what is left out is counted.
MAX_CHARS, BUDGET = 3000, 200_000
#: Most rows that are drawn from the parting on.
MAX_ROWS = 200
#: Lines of a text that stay open; the others are folded.
OPEN_LINES = 8
_TOOLS_NAMED = 6


def rollouts_html(
    samples: tuple[Sample, Sample], sides: tuple[DiffSide, DiffSide], style: TextStyle
) -> Iterator[str]:
    """Yield two responses side by side: by turns if one of them has several, else by words or tokens."""
    left, right = (response_blocks(sample, style.pad_token) for sample in samples)
    if has_several(left) or has_several(right):
        seconds = [sample.columns.get("seconds", math.nan) for sample in samples]
        yield _Page(align_turns(left, right), (seconds[0], seconds[1])).html(*sides)
    else:
        yield from diff_html(*sides, style)


class _Page:
    """The HTML of one comparison; it counts the characters that are left."""

    def __init__(self, found: TurnAlignment, seconds: tuple[float, float]) -> None:
        self._found, self._seconds, self._left = found, seconds, BUDGET
        self._titles = ("", "")

    def html(self, left: DiffSide, right: DiffSide) -> str:
        found = self._found
        first = len(found.rows) if found.parting is None else found.parting
        rows = found.rows[first : first + MAX_ROWS]
        self._titles = left.title, right.title
        sides = zip((left, right), (found.left, found.right), self._seconds, strict=True)
        body = [head_html(_with_numbers(*side)) for side in sides]
        body.append(self._before(first))
        body.append(self._parting(first))
        for place, (a, b, same) in enumerate(rows):
            here = None if a is None else found.left[a]
            there = None if b is None else found.right[b]
            kind = "same" if same else "parting" if not place else ""
            body += self._row(here, there, kind)
        left_out = len(found.rows) - first - len(rows)
        if left_out:
            text = tr("{count:,} more rows are not drawn; open a sample to read them", count=left_out)
            body.append(f'<p class="note">{safe_text(text)}</p>')
        return f'<div class="turns"><div class="pair">{"".join(body)}</div></div>'

    def _before(self, first: int) -> str:
        """Return what both did before they part, one line for each message; all but the last are folded."""
        if not first:
            return ""
        *blocks, last = self._found.left[:first]
        shown = f"<ol>{_deed_html(last)}</ol>"
        if not blocks:
            return f'<div class="before">{shown}</div>'
        lines = "".join(map(_deed_html, blocks[-MAX_ROWS:]))
        turns = sum(block.turn > 0 for block in blocks)
        said = trn("{count:,} turn before: {tools}", "{count:,} turns before: {tools}", turns, tools="\0")
        summary = safe_text(said.replace("\0", _tools(blocks)).rstrip(": "))
        folded = f"<details><summary>{summary}</summary><ol>{lines}</ol></details>"
        return f'<div class="before">{folded}{shown}</div>'

    def _parting(self, first: int) -> str:
        """Return the line between what is the same and what is not, and the numbers from there on."""
        found = self._found
        if found.parting is None:
            text = tr("both do the same in all {count:,} turns", count=totals(found.left).turns)
            return f'<p class="line">{safe_text(text)}{safe_text(self._other_words())}</p>'
        here, there = found.left[first:], found.right[first:]
        turns = [block.turn for block in found.left[:first] if block.turn]
        same = tr("same until turn {turn:,}", turn=turns[-1]) if turns else tr("different from the start")
        turn = next((block.turn for block in [*here[:1], *there[:1]] if block.turn), 0)
        names = {"turn": turn, "reason": tr(found.reason)}
        how = (
            tr("first different turn: {turn:,}, {reason}", **names)
            if turn
            else tr("first difference: {reason}", **names)
        )
        if not found.whole:
            how += tr("; the turns after it are not aligned, there are too many")
        return (
            f'<p class="line">{safe_text(same + self._other_words())}</p><p class="line">{safe_text(how)}</p>'
            + _table(turn, self._titles, totals(here), totals(there))
        )

    def _other_words(self) -> str:
        words = self._found.words
        if words is None:
            return ""
        return tr(" (the same calls; other words from turn {turn} on)", turn=_label(self._found.left[words]))

    def _row(self, here: MessageBlock | None, there: MessageBlock | None, kind: str) -> Iterator[str]:
        """Yield the two cells of a row; differences are marked where the rollouts part."""
        texts = _texts(here), _texts(there)
        marks: list[dict[str, str]] = [{}, {}]
        if kind == "parting":
            for part in _comparable(here, there) & texts[0].keys() & texts[1].keys():
                heads = (_first_lines(shorten(side[part], MAX_CHARS, ""))[0] for side in texts)
                marks[0][part], marks[1][part] = marked_pair(*heads)
        for side, (block, parts) in enumerate(zip((here, there), texts, strict=True)):
            css = f"turn {('here', 'there')[side]} {kind}"
            if block is None:
                yield f'<div class="{css} none"></div>'
                continue
            shown = (self._part(name, text, block, marks[side].get(name)) for name, text in parts.items())
            cell = "".join(shown)
            failed = any(call.result and call.result.error for call in block.calls) or block.error
            css += " failed" if failed else ""
            yield f'<div class="{css}"><div class="of">{_numbers(block)}</div><div>{cell}</div></div>'

    def _part(self, name: str, text: str, block: MessageBlock, marked: str | None) -> str:
        """Return one part of a message: its first lines, and the others folded."""
        kind, _, place = name.partition(":")
        shown = shorten(text, min(MAX_CHARS, max(self._left, 200)), "")
        self._left -= len(shown)
        cut = len(text) - len(shown)
        more = tr("{count:,} more characters are not drawn", count=cut) if cut else ""
        if kind == "reasoning":
            summary = tr("reasoning, {count:,} characters: {text}", count=len(text), text=one_line(text)[:90])
            return _details(summary, shown, more)
        head, tail = _first_lines(shown)
        failed = kind == "result" and bool((result := block.calls[int(place)].result) and result.error)
        css = f"{kind} bad" if failed or (block.error and kind == "text") else kind
        html = f'<div class="{css}">{marked or safe_text(head)}</div>'
        if tail:
            lines = tail.count("\n") + 1
            html += _details(trn("{count:,} more line", "{count:,} more lines", lines), tail, more)
        elif more:
            html += f'<p class="note">{safe_text(more)}</p>'
        return html


def _deed_html(block: MessageBlock) -> str:
    return f"<li><b>{_label(block)}</b> {safe_text(shorten(deed_line(block), 200))}</li>"


def deed_line(block: MessageBlock) -> str:
    """Return what a message does in one line: its calls, else the beginning of its text."""
    return one_line("; ".join(call.text for call in block.calls) or block.text or block.reasoning)


def _texts(block: MessageBlock | None) -> dict[str, str]:
    """Return the texts of a message by part, in the order of the screen."""
    if block is None:
        return {}
    parts = {"reasoning": block.reasoning, "text": block.text}
    for place, call in enumerate(block.calls):
        parts[f"call:{place}"] = call.text
        parts[f"result:{place}"] = call.result.text if call.result is not None else ""
    return {name: text for name, text in parts.items() if text.strip()}


def _comparable(here: MessageBlock | None, there: MessageBlock | None) -> set[str]:
    """Return the parts whose words are compared: calls of the same tool, and results of the same call."""
    parts = {"text"}
    if here is not None and there is not None:
        for place, (own, other) in enumerate(zip(here.calls, there.calls, strict=False)):
            parts |= {f"call:{place}"} if own.name == other.name else set()
            parts |= {f"result:{place}"} if own.text == other.text else set()
    return parts


def _first_lines(text: str) -> tuple[str, str]:
    """Return the lines of a text that stay open, and the others."""
    lines = text.split("\n")
    if len(lines) <= OPEN_LINES + 1:
        return text, ""
    return "\n".join(lines[:OPEN_LINES]), "\n".join(lines[OPEN_LINES:])


def _details(summary: str, text: str, more: str) -> str:
    note = f'<p class="note">{safe_text(more)}</p>' if more else ""
    return f"<details><summary>{safe_text(summary)}</summary><div>{safe_text(text)}</div>{note}</details>"


def _label(block: MessageBlock) -> str:
    """Return the number of a turn, or who wrote a message that is none of the policy's."""
    return str(block.turn) if block.turn else safe_text(block.name or block.role)


def _numbers(block: MessageBlock) -> str:
    own = totals([block])
    lines = [f"<b>{_label(block)}</b>"]
    if own.failed:
        said = safe_text(tr("error"))
        lines.append(f'<em class="bad">{said}</em>')
    if not math.isnan(own.seconds):
        lines.append(f"<em>{number(own.seconds)} s</em>")
    if not math.isnan(own.reward) and own.reward:
        lines.append(f"<em>{number(own.reward, sign=True)}</em>")
    return "".join(lines)


def _tools(blocks: Sequence[MessageBlock]) -> str:
    """Return the tools that were called, the most frequent first."""
    counted = Counter(call.name for block in blocks for call in block.calls)
    named = [f"{name} ×{count}" if count > 1 else name for name, count in counted.most_common(_TOOLS_NAMED)]
    return ", ".join([*named, "…"] if len(counted) > _TOOLS_NAMED else named)


def _with_numbers(side: DiffSide, blocks: Sequence[MessageBlock], seconds: float) -> DiffSide:
    """Return a side whose heading has the rollout's own numbers."""
    own = totals(blocks)
    parts = [trn("{count:,} turn", "{count:,} turns", own.turns)]
    if own.calls:
        parts.append(trn("{count:,} failed call", "{count:,} failed calls", own.failed))
    if not math.isnan(seconds):
        parts.append(f"{number(seconds)} s")
    return replace(side, location=" · ".join([*parts, *([side.location] if side.location else [])]))


def _table(turn: int, titles: tuple[str, str], here: TurnTotals, there: TurnTotals) -> str:
    """Return the table of both sides' numbers from the parting on; what neither side logs is left out."""
    rows = [
        (tr("turns"), here.turns, there.turns, False),
        (tr("calls"), here.calls, there.calls, False),
        (tr("failed calls"), here.failed, there.failed, False),
        (tr("sum of turn rewards"), here.reward, there.reward, True),
        (tr("logged seconds"), here.seconds, there.seconds, False),
    ]
    shown = [row for row in rows if not (math.isnan(row[1]) and math.isnan(row[2]))]
    heads = "".join(f"<th>{safe_text(name)}</th>" for name, *_ in shown)
    since = tr("from turn {turn:,} on", turn=turn) if turn else tr("from here on")
    body = ""
    for title, color, side in zip(titles, ("policy", "reference"), (1, 2), strict=True):
        cells = "".join(f"<td>{number(float(row[side]), sign=row[3])}</td>" for row in shown)
        body += f'<tr><th class="{color}">{safe_text(title)}</th>{cells}</tr>'
    return f"<table><tr><th>{safe_text(since)}</th>{heads}</tr>{body}</table>"
