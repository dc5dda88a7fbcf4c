"""Selects that change before they are rendered."""

from __future__ import annotations

import re
from pathlib import Path

import bokeh
import pytest

SCRIPTS = Path(bokeh.__file__).parent / "server" / "static" / "js"


@pytest.mark.upstream_fault
def test_new_options_still_empty_an_element_that_may_not_exist() -> None:
    text = (SCRIPTS / "bokeh-widgets.js").read_text("utf-8")
    view = re.search(r"\n( +)class SelectView .*?\n\1}", text, re.DOTALL)
    assert view
    changed = re.search(r"this\.on_change\(options, \(\) => \{(.*?)\}\)", view[0], re.DOTALL)
    assert changed
    assert "empty)(this.input_el)" in changed[1].split(";")[0]
    assert "initialize()" not in view[0]
