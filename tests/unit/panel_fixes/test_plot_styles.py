"""Plots and the styles of the page."""

from __future__ import annotations

import re
from pathlib import Path

import bokeh
import pytest
from packaging.version import Version

SCRIPT = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.js"


@pytest.mark.upstream_fault
def test_each_value_of_a_plot_is_still_looked_for_in_the_styles() -> None:
    method = re.search(r"\n( +)_get_css_value\(.*?\n\1}", SCRIPT.read_text("utf-8"), re.DOTALL)
    assert method
    assert "getComputedStyle(this.obj.el)" in method[0]
    assert ("_css_cache" in method[0]) == (Version(bokeh.__version__) >= Version("3.10"))
