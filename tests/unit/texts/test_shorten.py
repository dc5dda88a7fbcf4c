"""Texts are cut to what a place has room for, and show that they were cut."""

from __future__ import annotations

import pytest

from rlpanel.texts.shorten import marked_line, plot_text, shorten


@pytest.mark.parametrize(
    ("chars", "ellipsis", "within", "shown"),
    [
        (5, "…", False, "words"),
        (4, "…", False, "word…"),
        (4, "…", True, "wor…"),
        (4, "", False, "word"),
        (1, "… 4 more", False, "w… 4 more"),
    ],
)
def test_only_a_text_that_was_cut_ends_with_the_ellipsis(
    chars: int, ellipsis: str, within: bool, shown: str
) -> None:
    assert shorten("words", chars, ellipsis, within=within) == shown


def test_a_text_in_a_plot_ends_no_script() -> None:
    assert plot_text("a\n</script>\ud800") == "a <\u200b/script>?"
    assert plot_text("x" * 100, 10) == "x" * 9 + "…"


def test_line_breaks_and_tabs_are_marked() -> None:
    assert marked_line("a\nb\tc", 4) == "a↵b⇥"
