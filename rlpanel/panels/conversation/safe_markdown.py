"""Markdown with code and formulas as HTML that cannot run, load or link to anything.

The parser escapes HTML of the text. Links and images become text, and a sanitizer removes all that is not in
its list. Formulas become MathML, which browsers draw without scripts. What is too long, or takes too much
time, is shown as it was written, with a remark.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from rlpanel.panels.conversation.bounded_markdown import (
    MarkdownTimeout,
    check_time,
    make_parser,
    render_within,
)
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.shorten import shorten

log = logging.getLogger(__name__)

#: Characters of a text that are formatted; the rest is shown as it is.
MAX_CHARACTERS = 20_000
#: Seconds of CPU time for the Markdown of one text.
MAX_SECONDS = 1.0
#: A longer formula is shown as its source.
_LONGEST_FORMULA = 2_000
#: Characters of an address that are shown. A definition may be used by thousands of links.
_LONGEST_ADDRESS = 200

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
    return shorten(address, _LONGEST_ADDRESS)


def _inline_formula(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return _formula_html(tokens[index].content, "inline", env)


def _formula(_: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return f"<p>{_formula_html(tokens[index].content, 'block', env)}</p>"


def _formula_html(source: str, display: str, env: Any) -> str:
    """Return a formula as MathML; its source if it is too long or no LaTeX."""
    from latex2mathml.converter import convert

    check_time(env)
    if len(source) <= _LONGEST_FORMULA:
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
