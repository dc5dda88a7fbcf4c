"""The package's scripts use public parts of BokehJS, Panel and Tabulator only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rlpanel

PACKAGE = Path(rlpanel.__file__).parent
SCRIPTS = sorted(PACKAGE.rglob("*.js"))
#: Private by their name, parts of views that BokehJS does not document, and what changes a class of others.
PRIVATE = re.compile(r"\._[a-z]\w*|\b(?:child_views|child_models|has_finished|canvas_view)\b|\.prototype\b")


def private_parts(text: str) -> list[str]:
    """Return the private parts that a script uses, without its comments."""
    return PRIVATE.findall(re.sub(r"//.*|/\*[\s\S]*?\*/", "", text))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_uses_public_parts_only(path: Path) -> None:
    assert private_parts(path.read_text("utf-8")) == []


def test_a_private_part_is_found() -> None:
    text = "view._render() // view._other\nroot.child_views[0].has_finished()\nView.prototype.render = null"
    assert private_parts(text) == ["._render", "child_views", "has_finished", ".prototype"]
