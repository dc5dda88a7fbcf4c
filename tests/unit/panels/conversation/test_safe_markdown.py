"""Markdown of a model: formatted, and unable to run, load or link to anything."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.conversation.safe_markdown import _TAGS, MOST_CHARACTERS, markdown_html


def test_code_tables_lists_and_emphasis() -> None:
    made = markdown_html("**bold** `code`\n\n- one\n\n|a|b|\n|-|-|\n|1|2|\n\n```python\nx < 1\n```\n")
    for part in ("<strong>bold</strong>", "<code>code</code>", "<li>one</li>", "<td>1</td>", "x &lt; 1"):
        assert part in made


@pytest.mark.parametrize("formula", ["$x^2$", r"\(x^2\)", "$$x^2$$", r"\[ x^2 \]"])
def test_formulas_become_mathml(formula: str) -> None:
    made = markdown_html(f"so\n\n{formula}\n\nfollows")
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in made


def test_money_is_no_formula() -> None:
    assert "math" not in markdown_html("It costs $5 today and $6 tomorrow.")


def test_a_broken_or_endless_formula_stays_readable() -> None:
    assert "frac" in markdown_html(r"$\frac{1$")
    assert "xxx" in markdown_html(f"${'x' * 5_000}$")
    assert "{{{" in markdown_html(f"${'{' * 1_500}x$")


def test_a_link_shows_its_address_and_leads_nowhere() -> None:
    made = markdown_html(
        "[click](https://outside.invalid/a) ![image](https://outside.invalid/b) <https://c.invalid>"
    )
    assert "https://outside.invalid/a" in made
    assert not re.search(r"<a|<img|href=|src=", made)


ATTACKS = (
    "<script>ran=1</script>",
    "<img src=x onerror=ran=1>",
    "[x](javascript:ran=1)",
    "![x](javascript:ran=1)",
    "<svg onload=ran=1>",
    "$\\href{javascript:ran=1}{x}$",
    "$</mtext><img src=x onerror=ran=1>$",
    "$\\text{</mtext></math><img src=x onerror=ran=1>}$",
    '$\\class{" onmouseover="ran=1}{x}$',
    "$\\style{background:url(https://outside.invalid)}{x}$",
    "```\n</code></pre><img src=x onerror=ran=1>\n```",
    '```x"><img src=x onerror=ran=1>\ny\n```',
    "|<img src=x onerror=ran=1>|b|\n|-|-|\n|</td><script>ran=1</script>|2|",
    "<math><mtext><table><mglyph><style><img src=x onerror=ran=1></style></mglyph></table></mtext></math>",
    "1. a\n" + "> " * 500 + "<script>",
    "[a]: javascript:ran=1\n\n[a]",
    "\x00<script\x00>ran=1</script>",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_become_text(attack: str) -> None:
    assert_harmless(markdown_html(attack))


@given(st.lists(st.sampled_from([*ATTACKS, "$", "`", "\n\n", "> ", "*", "|", "\\(", "\\)", "[", "](", "<"])))
def test_combinations_of_attacks_become_text(parts: list[str]) -> None:
    assert_harmless(markdown_html("".join(parts)))


def assert_harmless(made: str) -> None:
    """Tags are those of the list; their attributes neither run nor load anything."""
    for closing, name, attributes in re.findall(r"<(/?)([A-Za-z0-9]+)([^>]*)>", made):
        assert name in _TAGS, made
        assert not closing or not attributes
        for key in re.findall(r"([\w-]+)\s*=", re.sub(r'"[^"]*"', '""', attributes)):
            assert key in {"class", "start", "display", "stretchy", "fence", "form", "minsize", "maxsize",
                           "mathvariant", "width", "columnalign"}, made  # fmt: skip


def test_a_very_long_text_is_not_parsed() -> None:
    made = markdown_html("*a* " * (MOST_CHARACTERS // 4 + 1))
    assert made.startswith("<pre>*a*")
