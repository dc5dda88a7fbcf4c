"""Layouts whose children change while their views are built."""

from __future__ import annotations

import re
from pathlib import Path

import bokeh
import pytest
from packaging.version import Version

SCRIPT = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.js"


@pytest.mark.upstream_fault
def test_a_view_is_still_known_only_after_it_was_built() -> None:
    """A second call that comes while the first waits builds another view of the same model."""
    text = SCRIPT.read_text("utf-8")
    build = re.search(r"\n( +)async function build_views\(.*?\n\1}", text, re.DOTALL)
    assert build
    late = re.search(
        r"const view = await _build_view\([^\n]*\);\s*view_storage\.set\(model, view\);", build[0]
    )
    assert bool(late) == (Version(bokeh.__version__) < Version("3.10.1"))
