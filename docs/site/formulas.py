"""Draws formulas as MathML when the site is built, so that no script draws them later."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.writers.html5 import HTML5Translator


def draw_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def draw_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own line."""
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode
