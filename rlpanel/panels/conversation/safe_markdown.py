"""Markdown with code and formulas as HTML that cannot run, load or link to anything.

The parser escapes HTML of the text. Links and images become text, and a sanitizer removes all that is not in
its list. Formulas become MathML, which browsers draw without scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.texmath import texmath_plugin

from rlpanel.panels.ui.theme import safe_text

#: A longer text is shown as it is: parsing it would occupy the server.
MOST_CHARACTERS = 100_000
#: A longer formula is shown as its source.
_LONGEST_FORMULA = 2_000

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
    """Return Markdown as sanitized HTML; a text of more than `MOST_CHARACTERS` as escaped text."""
    if len(text) > MOST_CHARACTERS:
        return f"<pre>{safe_text(text)}</pre>"
    try:
        made = _parser().render(text)
    except RecursionError:
        return f"<pre>{safe_text(text)}</pre>"
    return nh3.clean(
        made,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        link_rel=None,
        url_schemes=set(),
        strip_comments=True,
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.use(texmath_plugin, delimiters="brackets")
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _link_open(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return '<span class="link">'


def _link_close(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Show the address as text: a reader must see where a model's link would lead."""
    opening = next(token for token in reversed(tokens[:index]) if token.type == "link_open")
    return f'</span> <span class="source">({safe_text(str(opening.attrGet("href") or ""))})</span>'


def _image(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    source = str(tokens[index].attrGet("src") or "")
    return (
        f'<span class="source">[image: {safe_text(tokens[index].content)} {safe_text(source[:200])}]</span>'
    )


def _inline_formula(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return _formula_html(tokens[index].content, "inline")


def _formula(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return f"<p>{_formula_html(tokens[index].content, 'block')}</p>"


def _formula_html(source: str, display: str) -> str:
    """Return a formula as MathML; its source if it is too long or no LaTeX."""
    from latex2mathml.converter import convert

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
