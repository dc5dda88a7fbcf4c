"""Texts of the ticks of a value axis, as the browser formats them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bokeh.resources import Resources
from playwright.sync_api import Page

from rlpanel.panels.plots.quiet_figure import quiet_figure
from tests.ui.conftest import Profile

_FORMAT = """([type, format, tick]) => {
  const formatter = new (Bokeh.Models.get(type))({ format })
  return formatter.doFormat([tick], { loc: 0 })[0]
}"""


@pytest.fixture(scope="module")
def with_bokeh(profile: Profile) -> Iterator[Page]:
    """A page that has loaded Bokeh and nothing else."""
    with profile.context.new_page() as page:
        page.add_script_tag(content=Resources(mode="inline", components=["bokeh"]).js_raw[0])
        yield page


@pytest.mark.parametrize(
    ("tick", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (-1.2, "-1.2"),
        (0.1 + 0.2, "0.3"),
        (235.4, "235.4"),
        (150_000, "150000"),
        (2e-4, "0.0002"),
        (-2.5e-7, "-2.5e-7"),
    ],
)
def test_a_tick_has_no_padding_zeros(with_bokeh: Page, clean: None, tick: float, text: str) -> None:
    formatter = quiet_figure(height=100).yaxis[0].formatter
    assert with_bokeh.evaluate(_FORMAT, [type(formatter).__name__, formatter.format, tick]) == text
