"""The sign of ticks."""

from __future__ import annotations

import re
from pathlib import Path

import bokeh
import pytest

SCRIPT = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.js"


@pytest.mark.upstream_fault
def test_a_printf_format_still_leaves_the_hyphen() -> None:
    text = SCRIPT.read_text("utf-8")
    formatter = re.search(r"\n( +)class PrintfTickFormatter .*?\n\1}", text, re.DOTALL)
    assert formatter
    assert "unicode_replace" not in formatter[0]
    assert "unicode_replace(" in text
