"""No module outside `panel_fixes` uses, replaces or overrides private parts of the framework."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name, walk_packages

import rlpanel

PACKAGE = Path(rlpanel.__file__).parent
FRAMEWORK = frozenset({"panel", "bokeh", "holoviews", "param", "tornado", "hvplot"})
#: Private names that Panel and HoloViews document as their interface for own components and operations:
#: https://panel.holoviz.org/how_to/custom_components and HoloViews' guide on operations.
DOCUMENTED = frozenset({"_esm", "_stylesheets", "_rename", "_handle_msg", "_send_msg", "_process"})
#: Set by the framework itself when a class is made.
_OF_CLASSES = ("_param__", "_data_model")
#: Uses that stay, with the reason.
ALLOWED: dict[str, str] = {}


def uses(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each use of a private part of the framework in a module.

    These are imports of private names; private attributes of what is imported, and of names that are
    annotated with it or made of it; and assignments to any attribute of a module or class.
    """
    tree = ast.parse(source)
    imported, objects = dict[str, str](), set[str]()
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = alias.name if isinstance(node, ast.Import) else node.module or ""
            if module.partition(".")[0] in FRAMEWORK:
                whole = isinstance(node, ast.Import)
                name = alias.asname or alias.name.partition(".")[0]
                imported[name] = (module if alias.asname else name) if whole else f"{module}:{alias.name}"
                if _is_private(alias.name):
                    yield node.lineno, f"import of {alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None and _root(node.annotation) in imported:
            objects.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _root(node.annotation) in imported:
            objects.add(_root(node.target))
        elif isinstance(node, ast.Assign) and _root(node.value) in imported:
            objects |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root = _root(node)
            if _is_private(node.attr) and root in imported.keys() | objects:
                yield node.lineno, ast.unparse(node)
            elif isinstance(node.ctx, ast.Store) and _is_part(node.value, imported):
                yield node.lineno, f"{ast.unparse(node)} = ..."
        elif (
            isinstance(node, ast.Call) and _root(node.func) == "setattr" and _is_part(node.args[0], imported)
        ):
            yield node.lineno, ast.unparse(node)


def _root(node: ast.expr) -> str:
    """Return the name that a chain of attributes, calls and items begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


def _is_part(node: ast.expr, imported: dict[str, str]) -> bool:
    """Return True for a module or a class of the framework; its objects are there to be set."""
    first, *rest = ast.unparse(node).split(".")
    if first not in imported or not all(name.isidentifier() for name in rest):
        return False
    try:
        part = resolve_name(imported[first])
        part = attrgetter(".".join(rest))(part) if rest else part
    except (ImportError, AttributeError):
        return False
    return inspect.ismodule(part) or inspect.isclass(part)


@cache
def overridden() -> list[tuple[str, str]]:
    """Return module and name of each private attribute that overrides one of the framework's classes."""
    found = []
    for info in walk_packages(rlpanel.__path__, "rlpanel."):
        path = PACKAGE.joinpath(*info.name.split(".")[1:]).with_suffix(".py")
        if not path.is_file() or "class " not in path.read_text("utf-8") or not _imports_framework(path):
            continue
        module = importlib.import_module(info.name)
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == info.name:
                found += [(info.name, f"{cls.__name__}.{name}") for name in overrides(cls)]
    return found


def overrides(cls: type) -> list[str]:
    """Return the private attributes of a class that a base class of the framework has, too."""
    bases = [base for base in cls.__mro__[1:] if base.__module__.partition(".")[0] in FRAMEWORK]
    names = [name for name in vars(cls) if _is_private(name) and not name.startswith(_OF_CLASSES)]
    return [name for name in names if any(name in vars(base) for base in bases)]


def _imports_framework(path: Path) -> bool:
    """Return True if a module imports the framework; all others need not be looked at."""
    text = path.read_text("utf-8")
    return "class " in text and any(
        f"{word} {name}" in text
        for word in ("import", "from")
        for name in (*FRAMEWORK, "rlpanel.panel_fixes")
    )


def outside() -> Iterator[Path]:
    """Yield the modules outside the room."""
    modules = (path for path in PACKAGE.rglob("*.py") if path.parent.name != "panel_fixes")
    return filter(_imports_framework, modules)


def test_no_private_part_of_the_framework_is_used_outside_the_room() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in outside()
        for line, text in uses(path.read_text("utf-8"))
    ]
    assert [each for each in found if each.partition(": ")[2] not in ALLOWED] == []


def test_no_private_method_of_the_framework_is_overridden_outside_the_room() -> None:
    found = [f"{module}: {name}" for module, name in overridden() if "panel_fixes" not in module]
    assert [each for each in found if each not in ALLOWED] == []
    assert [name for module, name in overridden() if "panel_fixes" in module], "the room has some"


BAD = """
import panel as pn
from bokeh.document import Document
from holoviews import Store
from panel.io.document import _WRITE_BLOCK

def use(document: Document) -> None:
    document.callbacks._held_events = []
    root = pn.Column()
    root._models
    Store._display_hooks
    pn.Column._update = None
    Document.to_json = None
    setattr(pn.Column, "append", None)
"""
GOOD = """
import panel as pn
from bokeh.settings import settings

class Own(pn.custom.JSComponent):
    _esm = "x"
    def tell(self) -> None:
        self._own = pn.state.location
        self._send_msg({})
        pn.config.theme = "dark"
        pn.state.curdoc.theme = None
        settings.minified = True
"""


def test_the_search_finds_what_is_private_and_nothing_else() -> None:
    assert sorted({line for line, _ in uses(BAD)}) == [5, 8, 10, 11, 12, 13, 14]
    assert list(uses(GOOD)) == []


def test_an_override_is_found() -> None:
    import panel as pn

    class Row(pn.Row):
        _handle_msg, _own = None, None

        def _compute_sizing_mode(self, *_: object) -> dict[str, object]:
            return {}

    assert overrides(Row) == ["_compute_sizing_mode"]
