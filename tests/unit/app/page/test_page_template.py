"""The page's HTML document."""

from __future__ import annotations

import re

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.models import ImportedStyleSheet
from bokeh.resources import Resources

from rlpanel.app.page.page import (
    SYSTEM_COOKIE,
    THEME_COOKIE,
    apply_template,
    last_theme,
    without_unused_scripts,
)


@pytest.mark.parametrize(
    ("chosen", "system", "shown"),
    [("dark", "light", "dark"), (None, "light", "light"), ("x", "dark", "dark"), (None, None, "dark")],
)
def test_a_chosen_theme_wins_over_that_of_the_system(chosen: str, system: str, shown: str) -> None:
    cookies = {THEME_COOKIE: chosen, SYSTEM_COOKIE: system}
    assert last_theme({name: value for name, value in cookies.items() if value}) == shown


def test_unused_scripts_are_left_out_and_all_others_stay() -> None:
    names = (
        "bokeh.min.js",
        "bokeh-gl.min.js",
        "bokeh-widgets.min.js",
    )
    tags = "".join(f'<script type="text/javascript" src="static/js/{name}?v=1"></script>' for name in names)
    assert re.findall(r"js/([^?]+)", without_unused_scripts(tags)) == ["bokeh.min.js", "bokeh-widgets.min.js"]


def test_inline_scripts_stay() -> None:
    resources = Resources(mode="inline", components=["bokeh"])
    tags = without_unused_scripts(resources.render_js())
    assert resources.js_raw
    assert all(script in tags for script in resources.js_raw)


def test_the_first_view_is_a_variable_not_a_part_of_the_template() -> None:
    """A template language in a prompt must not be run."""
    document = Document()
    apply_template(document, "{{ 7 * 7 }}")
    assert "7 * 7" not in str(document.template)
    assert document.template_variables["rlpanel_first_view"] == "{{ 7 * 7 }}"


def test_a_view_that_is_created_before_the_html_gets_no_style_sheet_of_a_cdn() -> None:
    document = Document()
    apply_template(document, "")
    model = pn.pane.HTML("").get_root(document)
    urls = [sheet.url for sheet in model.select({"type": ImportedStyleSheet})]
    assert urls
    assert not any(url.startswith("http") for url in urls)
