"""Markdown of a model: formatted, and unable to run, load or link to anything."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.conversation.safe_markdown import (
    _TAGS,
    MAX_CHARACTERS,
    formatted_html,
    markdown_html,
)


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


def test_a_very_long_text_is_formatted_up_to_a_paragraph_and_says_so() -> None:
    made = markdown_html("*a* **b**\n\n" * 4_000)
    formatted, _, rest = made.partition('<p class="remark">')
    assert formatted.count("<em>a</em>") + rest.count("*a*") == 4_000
    assert 1_000 < formatted.count("<strong>b</strong>") <= MAX_CHARACTERS // 11
    assert rest.startswith("The rest is shown as plain text: Markdown is formatted up to 20,000 characters.")
    assert "<em>" not in rest


def test_markdown_that_takes_too_long_is_plain_text_with_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formatted_html("*a* " * 4_000, seconds=0) is None
    monkeypatch.setattr("rlpanel.panels.conversation.safe_markdown.MAX_SECONDS", 0.0)
    made = markdown_html("*a* <b>" * 2_000)
    assert "Shown as plain text" in made
    assert made.endswith("*a* &lt;b&gt;" * 2_000 + "</div>")


def test_an_address_used_by_many_links_is_shortened() -> None:
    made = markdown_html(f"[a]: {'b' * 9_000}\n\n" + "[a] " * 2_000)
    assert made.count("bbb…") == 2_000
    assert len(made) < 1_000_000


@pytest.mark.parametrize(
    ("text", "formula", "around"),
    [
        (r"so \[ y \] is", "<mi>y</mi>", "is"),
        ("\\[\nx\n\n= y\n\\]\n\nafter", "<mo>=</mo>", "after"),
        (r"\[x\] stays", "<mi>x</mi>", "stays"),
        ("> \\[a\n> b\\]\n\nafter", "<mi>a</mi><mi>b</mi>", "after"),
        ("$$a$$ b\n\n$$\nx\n\n$$\n", "<mi>x</mi>", "b"),
        ("$$a\n\n$$b\n\n$$c$$\n", "<mi>c</mi>", ""),
    ],
)
def test_a_formula_loses_nothing_around_it(text: str, formula: str, around: str) -> None:
    made = markdown_html(text)
    assert formula in made
    assert around in made
    assert "&gt;" not in made


@pytest.mark.parametrize("text", [r"\(a", r"\(a\(b", r"a \[ b", r"\\(a\\)", "\\(a\n\nb\\)"])
def test_a_bracket_without_its_end_in_the_paragraph_is_no_formula(text: str) -> None:
    assert "<math" not in markdown_html(text)


def test_a_table_is_formatted_unless_it_is_mostly_empty() -> None:
    assert markdown_html("|a|\n|-|\n" + "|b|\n" * 4_000).count("<td>") == 4_000
    assert markdown_html("a|b\n-|-\n" + "c|\n" * 4_000).count("<td>") == 8_000
    assert "<td>" not in markdown_html("|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|\n" * 8_000)


def rep(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def formulas(unit: str, end: str = "") -> Callable[[int], str]:
    """Return a text of formulas, each as long as one that is converted."""
    count = 1_900 // (len(unit) + len(end))
    return rep(f"${unit * count}{end * count}$ ")


#: What a model that loops writes, and what a hostile one would: the text of a size.
OPENERS: dict[str, Callable[[int], str]] = {
    **{
        repr(unit): rep(unit)
        for unit in (
            "word ", "[a](b) ", "![a](b) ", "[", "[a](", "![", "![[]()", "![\\[", "*a ", "*a **b ", "~~a ",
            "> ", "a_b*c~~d ", "- ", "1. ", "> a\n", "<", "&amp;", "\\[", "\\(a ", "$a ", "$a$ ", "$$a$$ ",
            "$$a\n", "\\[a\n", "\\[a\n\n", "$$a\n\n", "[a]: b\n", "```\n", "<a href=x>", "<http://a>",
            "&#x1F600;", "---\n", "a\n=\n", "\t- a\n", "|:-|\n", "`a ``b ", "$x_1^2+\\frac{a}{b}$ ",
        )
    },
    "used definitions": lambda size: rep("[a]: b\n\n")(size // 2) + rep("[a] ")(size // 2),
    "nested emphasis": lambda size: "*" * (size // 2) + "a" + "*" * (size // 2),
    "code spans": lambda size: "".join("`" * k + " " for k in range(1, int((2 * size) ** 0.5))),
    "empty rows": lambda size: f"|{'a|' * (size // 9)}\n|{'-|' * (size // 9)}\n" + "|\n" * (size // 4),
    "short rows": lambda size: "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|a\n" * (size // 3),
    "formula (": formulas("("),
    "formula {": formulas("{", "}"),
    "formula ^": formulas("x^"),
    "formula '": formulas("x'"),
    "formula &": rep("$\\begin{matrix}" + "&" * 1_900 + "\\end{matrix}$ "),
    "formula frac": formulas("\\frac{"),
    "formula left": formulas("\\left("),
    "formula text": formulas("\\text{", "}"),
    "formula sqrt": formulas("\\sqrt"),
    "formula 9": rep("$" + "9" * 1_990 + "$ "),
}  # fmt: skip


@pytest.mark.parametrize("name", OPENERS)
def test_the_time_of_an_opener_grows_with_the_length(name: str) -> None:
    make = OPENERS[name]
    long = seconds_of(make(MAX_CHARACTERS))
    assert long < 3  # below 0.5 on a machine without other load
    if long >= 0.2:  # a shorter time cannot be told from noise
        short = seconds_of(make(MAX_CHARACTERS // 4))
        if long >= 10 * short:  # other load only adds to the time, so the shortest of several counts
            long = min(long, *(seconds_of(make(MAX_CHARACTERS)) for _ in range(3)))
        assert long / max(short, 0.02) < 10  # 4 if the time is linear, 16 if it is quadratic


def seconds_of(text: str) -> float:
    """Return the CPU time of formatting a text, without collections of garbage."""
    gc.disable()  # a collection before it would take longer than most texts
    started = time.thread_time()
    try:
        assert formatted_html(text, seconds=60) is not None
        return time.thread_time() - started
    finally:
        gc.enable()
