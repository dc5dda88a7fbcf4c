"""Texts of the ticks of a value axis, as the browser formats them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from rlpanel.panels.ui import theme


@pytest.mark.parametrize(
    ("tick", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (-1.2, "−1.2"),
        (0.1 + 0.2, "0.3"),
        (235.4, "235.4"),
        (150_000, "150000"),
        (2e-5, "2e−5"),
        (-2.5e-7, "−2.5e−7"),
        (1.5e6, "1.5e6"),
        (2e9, "2e9"),
    ],
)
def test_a_tick_has_no_padding_zeros(page: Page, tick: float, text: str) -> None:
    plot = theme.quiet_figure(height=100)
    shown = page.evaluate(
        "([code, tick]) => new Function('tick', code)(tick)", [plot.yaxis[0].formatter.code, tick]
    )
    assert shown == text
