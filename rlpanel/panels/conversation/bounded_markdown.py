"""Parser of Markdown whose time grows with the length of a text, and which stops at a time limit.

A model that loops writes the same opening thousands of times. The rules of this module replace those of the
parser and of its plugins that look for the end of each opening again, or that make more than the text holds.
"""

from __future__ import annotations

import time
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_block_dollar

#: Cells that a table may have beyond those that are written: short rows are filled up.
MAX_FILLED_CELLS = 2_000
#: Opening of a formula → its closing, and the kind of token.
_BRACKETS = {"\\(": ("\\)", "math_inline"), "\\[": ("\\]", "math_inline_double")}
_dollars = math_block_dollar(allow_blank_lines=True)
#: Key of the time limit in a text's environment.
_DEADLINE = "deadline"


class MarkdownTimeout(Exception):
    """A text's Markdown takes longer than allowed."""


def make_parser() -> MarkdownIt:
    """Return a parser of Markdown with tables and formulas, without HTML."""
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.block.ruler.at("math_block", _dollar_block)
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("fence", "bracket_block", _bracket_block)
    parser.inline.ruler.before("escape", "bracket_inline", _bracket_inline)
    parser.block.ruler.before("table", "deadline", _check_block)
    parser.inline.ruler.before("text", "deadline", _check_inline)
    return parser


def render_within(parser: MarkdownIt, text: str, seconds: float) -> str:
    """Return the HTML of a text.

    Raises
    ------
    MarkdownTimeout
        If the thread needs more CPU time than ``seconds``.
    """
    return str(parser.render(text, {_DEADLINE: time.thread_time() + seconds}))


def check_time(env: Any) -> None:
    """Raise MarkdownTimeout if the time of the text that is being rendered is over."""
    if time.thread_time() > env.get(_DEADLINE, float("inf")):
        raise MarkdownTimeout


def _check_block(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    check_time(state.env)
    return False


def _check_inline(state: StateInline, silent: bool) -> bool:
    check_time(state.env)
    return False


def _table(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Parse a table, unless filling up its short rows makes far more cells than it has characters."""
    if line < state.env.get("refused", 0) or not table(state, line, end, True):
        return False
    if silent:
        return True
    last = line + 2
    while last < end and not state.isEmpty(last):
        last += 1
    columns = state.src[state.bMarks[line + 1] : state.eMarks[line + 1]].strip(" |").count("|") + 1
    size = state.eMarks[last - 1] - state.bMarks[line]
    if columns * (last - line) > MAX_FILLED_CELLS + size:
        state.env["refused"] = last
        return False
    return table(state, line, end, False)


def _dollar_block(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Parse a formula ``$$…$$``; lines without its end are searched once."""
    begin = state.bMarks[line] + state.tShift[line]
    if not state.src.startswith("$$", begin):
        return False
    if end <= state.env.get("endless", 0):
        return _dollars(state, line, line + 1, silent)
    if _dollars(state, line, end, silent):
        return True
    if state.src.find("$$", begin + 2, state.eMarks[line]) < 0:  # else the line itself is what is wrong
        state.env["endless"] = end
    return False


def _bracket_inline(state: StateInline, silent: bool) -> bool:
    r"""Parse a formula in ``\(…\)`` or ``\[…\]`` within a paragraph."""
    opening = state.src[state.pos : state.pos + 2]
    if opening not in _BRACKETS:
        return False
    closing, kind = _BRACKETS[opening]
    close = _find(state, closing, state.pos + 3, state.posMax)
    if close < 0:
        return False
    if not silent:
        token = state.push(kind, "math", 0)
        token.content = state.src[state.pos + 2 : close]
    state.pos = close + 2
    return True


def _bracket_block(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    r"""Parse a formula ``\[…\]`` that takes whole lines; it may hold empty lines."""
    begin = state.bMarks[line] + state.tShift[line]
    if not state.src.startswith("\\[", begin):
        return False
    close = _find(state, "\\]", begin + 3, state.eMarks[end - 1])
    rest = state.src.find("\n", close) if close >= 0 else -1
    # A formula with text behind it stands in a paragraph, which finds it as well.
    if close < 0 or state.src[close + 2 : rest if rest >= 0 else None].strip():
        return False
    last = line
    while state.eMarks[last] < close:
        last += 1
    if not silent:
        token = state.push("math_block", "math", 0)
        token.block = True
        # Without the marks of a quotation that holds it.
        token.content = state.getLines(line, last + 1, state.blkIndent, False).strip()[2:-2]
        token.map = [line, last + 1]
    state.line = last + 1
    return True


def _find(state: StateInline | StateBlock, closing: str, begin: int, end: int) -> int:
    """Return where a closing stands, or -1; a text that lacks it is searched once, not for each opening."""
    if state.env.get("searched") is not state.src:
        state.env.update(searched=state.src, closings={})
    last = state.env["closings"].setdefault(closing, state.src.rfind(closing))
    return state.src.find(closing, begin, end) if begin <= last else -1
