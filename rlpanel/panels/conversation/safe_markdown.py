"""Markdown of a model as safe HTML, in bounded time.

Markdown with code and formulas as HTML that cannot run, load or link to anything.

The parser escapes HTML of the text. Links and images become text, and a sanitizer removes all that is not in
its list. Formulas become MathML, which browsers draw without scripts. What is too long, or takes too much
time, is shown as it was written, with a remark.

Parser of Markdown whose time grows with the length of a text, and which stops at a time limit.

A model that loops writes the same opening thousands of times. The rules of this module replace those of the
parser and of its plugins that look for the end of each opening again, or that make more than the text holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_block_dollar

from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.shorten import shorten

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
    closings = state.env["closings"]
    if closing not in closings:
        closings[closing] = state.src.rfind(closing)
    return state.src.find(closing, begin, end) if begin <= closings[closing] else -1


log = logging.getLogger(__name__)

#: Characters of a text that are formatted; the rest is shown as it is.
MAX_CHARACTERS = 20_000
#: Seconds of CPU time for the Markdown of one text.
MAX_SECONDS = 1.0
#: A longer formula is shown as its source.
_MAX_FORMULA = 2_000
#: Characters of an address that are shown. A definition may be used by thousands of links.
_MAX_ADDRESS = 200

_MATH = {
    *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msup", "msub"),
    *("msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "menclose", "mpadded"),
    *("mphantom", "mmultiscripts", "mprescripts"),
}
_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "span"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
    *_MATH,
}
_ATTRIBUTES = {
    "ol": {"start"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "form", "minsize", "maxsize"},
    "mi": {"mathvariant"},
    "mspace": {"width"},
    "mtable": {"columnalign"},
}
_CLASSES = {"span": {"link", "source"}}


def markdown_html(text: str) -> str:
    """Return Markdown as sanitized HTML; what is too long or too slow is plain text with a remark."""
    cut = _paragraph_end(text)
    made = formatted_html(text[:cut], MAX_SECONDS)
    if made is None:
        remark = tr("Shown as plain text: its Markdown cannot be formatted in reasonable time.")
        return f"{_remark(remark)}{_plain(text)}"
    if cut == len(text):
        return made
    remark = tr("The rest is shown as plain text: Markdown is formatted up to {most} characters.")
    return f"{made}{_remark(remark.format(most=f'{MAX_CHARACTERS:,}'))}{_plain(text[cut:])}"


def formatted_html(text: str, seconds: float) -> str | None:
    """Return Markdown as sanitized HTML; None if it cannot, or takes more CPU time than ``seconds``."""
    try:
        made = render_within(_parser(), text, seconds)
    except (MarkdownTimeout, RecursionError):
        return None
    except Exception as error:  # of the parser, which other people maintain
        log.warning("the Markdown of a text cannot be formatted: %s", type(error).__name__)
        return None
    return nh3.clean(
        made,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        link_rel=None,
        url_schemes=set(),
        strip_comments=True,
    )


def _paragraph_end(text: str) -> int:
    """Return how much of a text is formatted: at most `MAX_CHARACTERS`, up to the end of a paragraph."""
    if len(text) <= MAX_CHARACTERS:
        return len(text)
    for gap in ("\n\n", "\n", " "):
        end = text.rfind(gap, MAX_CHARACTERS // 2, MAX_CHARACTERS)
        if end >= 0:
            return end + len(gap)
    return MAX_CHARACTERS


def _remark(text: str) -> str:
    return f'<p class="remark">{safe_text(text)}</p>'


def _plain(text: str) -> str:
    return f'<div class="plain">{safe_text(text)}</div>'


@cache
def _parser() -> MarkdownIt:
    parser = make_parser()
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _link_open(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    env["address"] = str(tokens[index].attrGet("href") or "")  # links are not nested
    return '<span class="link">'


def _link_close(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Show the address as text: a reader must see where a model's link would lead."""
    return f'</span> <span class="source">({safe_text(_shortened(env["address"]))})</span>'


def _image(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    source = _shortened(str(tokens[index].attrGet("src") or ""))
    return f'<span class="source">[image: {safe_text(tokens[index].content)} {safe_text(source)}]</span>'


def _shortened(address: str) -> str:
    return shorten(address, _MAX_ADDRESS)


def _inline_formula(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return _formula_html(tokens[index].content, "inline", env)


def _formula(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return f"<p>{_formula_html(tokens[index].content, 'block', env)}</p>"


def _formula_html(source: str, display: str, env: Any) -> str:
    """Return a formula as MathML; its source if it is too long or no LaTeX."""
    from latex2mathml.converter import convert

    check_time(env)
    if len(source) <= _MAX_FORMULA:
        try:
            return str(convert(source.strip(), display=display))
        except (Exception, RecursionError):  # the converter raises errors of many kinds for broken LaTeX
            pass
    return f"<code>{safe_text(source)}</code>"


_RULES = {
    "link_open": _link_open,
    "link_close": _link_close,
    "image": _image,
    "math_inline": _inline_formula,
    "math_inline_double": _inline_formula,
    "math_block": _formula,
    "math_block_label": _formula,
}
