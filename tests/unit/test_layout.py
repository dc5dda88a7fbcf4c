"""The house stands as designed: imports go one way, nothing goes in circles, and the door is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel

PACKAGE = Path(rlpanel.__file__).parent

#: What each part may import besides itself; everything may also import the floor.
FLOOR = {"schema", "errors", "settings", "safe_files"}
ARROWS = {
    "recording": set(),
    "sources": set(),
    "metrics": set(),
    "store": {"sources", "metrics"},
    "findings": {"sources", "metrics", "store"},
    "panels": {"sources", "metrics", "store", "findings"},
    "views": {"store", "panels"},
    "app": {"sources", "metrics", "store", "findings", "panels"},
    "cli": {"recording", "sources", "metrics", "store", "findings", "panels", "app"},
    "__main__": {"cli"},
}

Edges = dict[str, set[str]]


def modules_of(package: Path) -> dict[str, Path]:
    """Every module below ``package``, by its dotted name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(package: Path) -> Edges:
    """Which module imports which; imports for the type checker alone do not count."""
    modules = modules_of(package)
    return {name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()}


def _imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    parent = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            # A name taken from a module is an import of that module.
            found = target if target in modules else target.rpartition(".")[0]
            if found in modules:
                yield found


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _running(child)


def wrong_arrows(edges: Edges) -> list[str]:
    """The imports that the layout forbids."""
    wrong = []
    for module, targets in edges.items():
        part = _part(module)
        allowed = FLOOR if part in FLOOR else {"", part} | FLOOR | ARROWS.get(part, set())
        wrong += [f"{module} imports {target}" for target in targets if _part(target) not in allowed]
    return sorted(wrong)


def _part(module: str) -> str:
    """The part of the house a module belongs to; '' for the package itself."""
    return [*module.split("."), ""][1]


def circle(edges: Edges) -> list[str]:
    """The modules of one circle of imports; empty where there is none."""
    done: set[str] = set()

    def walk(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        for target in sorted(edges[module]):
            if found := walk(target, [*trail, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(edges) if (found := walk(module, []))), [])


def house(folder: Path, files: dict[str, str]) -> Path:
    """A package named rlpanel with these files in it."""
    for name, text in files.items():
        path = folder / "rlpanel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "rlpanel"


def test_imports_go_one_way() -> None:
    assert wrong_arrows(imports_of(PACKAGE)) == []


def test_imports_make_no_circle() -> None:
    assert circle(imports_of(PACKAGE)) == []


def test_every_part_of_the_package_has_its_place() -> None:
    assert {_part(module) for module in modules_of(PACKAGE)} <= {"", *FLOOR, *ARROWS}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources/readers/tail.py", "from rlpanel.metrics import kl"),
        ("metrics/kl.py", "import rlpanel.store.run"),
        ("store/run.py", "def later():\n    from rlpanel.panels.curves.curves import x"),
        ("schema.py", "from rlpanel.store import run"),
        ("__init__.py", "import rlpanel.store.run"),
        ("sources/deep/own.py", "from ...metrics import kl"),
    ],
    ids=["sideways", "plain import", "inside a function", "from the floor", "from the door", "relative"],
)
def test_an_import_to_the_right_is_found(tmp_path: Path, file: str, text: str) -> None:
    names = ["__init__.py", "schema.py", "metrics/__init__.py", "metrics/kl.py", "sources/__init__.py"]
    names += ["store/__init__.py", "store/run.py", "panels/__init__.py", "panels/curves/curves.py"]
    package = house(tmp_path, dict.fromkeys([*names, "sources/deep/__init__.py"], "") | {file: text})
    assert len(wrong_arrows(imports_of(package))) == 1


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = house(
        tmp_path,
        {
            "store/a.py": "from rlpanel.store import b",
            "store/b.py": "from rlpanel.store.c import x",
            "store/c.py": "def f():\n    from rlpanel.store.a import y",
        },
    )
    assert circle(imports_of(package)) == [
        "rlpanel.store.a",
        "rlpanel.store.b",
        "rlpanel.store.c",
        "rlpanel.store.a",
    ]


def test_imports_for_the_type_checker_do_not_count(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rlpanel.store.b import y"
    package = house(tmp_path, {"store/a.py": text, "store/b.py": "from rlpanel.store.a import x"})
    assert circle(imports_of(package)) == []


def run_python(code: str) -> str:
    """What ``code`` prints in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["rlpanel", "rlpanel.cli", "rlpanel.app.demo"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = "{'panel', 'bokeh', 'holoviews', 'hvplot', 'pandas', 'numpy', 'param'}"
    assert run_python(f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))") == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "import rlpanel",
        "import rlpanel.recording",
        "from rlpanel import RolloutWriter, record",
        "import rlpanel.recording.verl, rlpanel.recording.openrlhf",
    ],
)
def test_importing_for_training_loads_the_standard_library_alone(code: str) -> None:
    outside = "{name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)"
    code = f"import sys; before = set(sys.modules); {code}; print(sorted({outside}))"
    assert run_python(code) == "['rlpanel']"


@pytest.mark.parametrize("name", rlpanel.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rlpanel, name) is not None


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bord'"):
        rlpanel.bord  # noqa: B018
