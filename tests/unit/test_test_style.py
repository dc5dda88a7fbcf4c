"""Tests reach into the package as little as possible: their private names and patches may only become fewer.

`tests/page_parts.py` finds the parts that a view shows, and sends them messages as a browser does; limits are
passed in by a `Runtime` or a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel

PACKAGE = Path(rlpanel.__file__).parent
TESTS = Path(__file__).parents[1]

#: Most private names of the package that the tests use, and most patches of its modules and classes. Lower
#: them when there are fewer.
MAX_PRIVATE, MAX_PATCHES = 35, 50
#: Private names that the package has too, but that tests use of verl, SkyRL, TRL, ms-swift, `re` and Jupyter.
THEIRS = {"_log_rollout_data", "_build_completed_rollout", "_metrics", "_step", "_parser", "_repr_html_"}
#: Functions that patch their first argument.
PATCHING = ("setattr", "delattr", "patch", "object")

_OWN = re.compile(r"(?m)(?:^ *|(?:def|class) |\b(?:self|cls)\.)(_[a-zA-Z]\w*)")
#: Texts that a module with private names, or with a patch, has.
_PRIVATE = re.compile(
    r"(?<!\bself)(?<!\bcls)\._[a-zA-Z]|\b_[a-zA-Z]\w*,?$|import .*\b_[a-zA-Z]", re.MULTILINE
)
_PATCH = re.compile(r"setattr|delattr|\bpatch\b")


def own_names(package: Path) -> set[str]:
    """The private names that the package defines or uses of itself."""
    return {
        name for path in package.rglob("*.py") for name in _OWN.findall(path.read_text(encoding="utf-8"))
    } - THEIRS


def private_uses(source: str, own: set[str]) -> Iterator[str]:
    """Yield where a test uses one of these names of an object that is not its own, or imports one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rlpanel"):
            for alias in node.names:
                if alias.name.startswith("_") and not alias.name.startswith("__"):
                    yield f"{node.lineno}: {alias.name}"


def patches(source: str) -> Iterator[str]:
    """Yield where a test patches a module or class of the package."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rlpanel")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in PATCHING:
            continue
        target = node.args[0]
        text = target.value if isinstance(target, ast.Constant) else ast.unparse(target)
        if str(text).split(".")[0] in {*imported, "rlpanel"}:
            yield f"{node.lineno}: {ast.unparse(node)}"


def modules(having: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each test module that has a text."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if having.search(text):
            yield path.relative_to(TESTS).as_posix(), text


def test_private_names_become_fewer() -> None:
    own = own_names(PACKAGE)
    found = [f"{name}:{use}" for name, text in modules(_PRIVATE) for use in private_uses(text, own)]
    assert len(found) <= MAX_PRIVATE, "\n".join(found)


def test_patches_become_fewer() -> None:
    found = [f"{name}:{use}" for name, text in modules(_PATCH) for use in patches(text)]
    assert len(found) <= MAX_PATCHES, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("view._table.value", 1),
        ("grid._query._bar", 2),
        ("from rlpanel.store import _parse", 1),
        ("from rlpanel import __version__", 0),
        ("self._table", 0),
        ("row._replace(step=1)", 0),
        ("frame.table", 0),
    ],
)
def test_private_names_of_the_package_are_found(line: str, count: int) -> None:
    assert len(list(private_uses(line, {"_table", "_query", "_bar"}))) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("from rlpanel.store import scan\nmonkeypatch.setattr(scan, 'BLOCK', 1)", 1),
        ("from rlpanel.store.reader import Reader\nwith patch.object(Reader, 'read'): ...", 1),
        ("patch.setattr('rlpanel.store.scan.BLOCK', 1)", 1),
        ("import os\nmonkeypatch.setattr(os, 'write', full)", 0),
        ("monkeypatch.setattr('socket.gethostname', name)", 0),
        ("from rlpanel.store import scan\nscan.read(1)", 0),
    ],
)
def test_patches_of_the_package_are_found(line: str, count: int) -> None:
    assert len(list(patches(line))) == count
