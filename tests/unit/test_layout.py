"""The package keeps to its layout: rooms, allowed imports, unique names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import rlpanel
from docs.layout import FLOOR, ROOMS
from tests.parsed_modules import parsed

PACKAGE = Path(rlpanel.__file__).parent

#: Most modules of one room, so that its list is read at a glance.
MAX_MODULES = 30
#: Fewest lines of a module that a single one imports; a smaller one joins that one or its neighbour.
MIN_LINES = 80
#: Rooms whose modules are small by design: one workaround each.
OF_SMALL_MODULES = ("panel_fixes",)
#: Smaller modules that stand alone, and why.
SMALL_MODULES = {
    "api.run_frames": "`Run` is long enough",
    "app.page.notebook_board": "the server does not load HoloViews",
    "plotting.run_html": "the HTML of a run is shown without HoloViews",
    "sources.adapters.open_instruct": "one module for each trainer",
    "sources.adapters.ragen": "one module for each trainer",
    "sources.spans.trackio": "one module for each trainer",
}
#: Files that may share their name: what Python names itself and the
#: recorder of a trainer beside the adapter that reads its files, both called as users import them.
SAME_FILE = {"__init__", "__main__", "verl", "skyrl", "tinker_cookbook"}
#: Public classes that may share their name.
SAME_CLASS: set[str] = set()

Edges = dict[str, set[str]]


def modules_of(package: Path) -> dict[str, Path]:
    """Every module below ``package``, by its dotted name."""
    modules = {}
    for path in package.rglob("*.py"):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def room_of(package: Path, path: Path) -> str:
    """The folder of a module below the package; of a module right in the package, its own name."""
    folder = path.parent.relative_to(package).as_posix()
    return path.stem if folder == "." else folder


@cache
def imports_of(package: Path) -> Edges:
    """Return the imports of each module, including those for the type checker.

    The package's own ``__init__`` is left out: it names what is public, and imports it when it is used.
    """
    modules = modules_of(package)
    return {
        name: set(_imported(name, path, modules)) - {name, package.name}
        for name, path in modules.items()
        if name != package.name
    }


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    parent = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in parsed(path).imports:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        for target in targets:
            # A name taken from a module is an import of that module.
            module = target if target in modules else target.rpartition(".")[0]
            if module in modules:
                yield module


def wrong_imports(package: Path, rooms: Mapping[str, tuple[str, ...]] = ROOMS) -> list[str]:
    """The imports that the table does not allow."""
    modules = modules_of(package)
    wrong = []
    for module, targets in imports_of(package).items():
        room = room_of(package, modules[module])
        for target in targets:
            if not _allowed(room, room_of(package, modules[target]), rooms):
                wrong.append(f"{module} imports {target}")
    return sorted(wrong)


def _allowed(room: str, target: str, rooms: Mapping[str, tuple[str, ...]]) -> bool:
    if room == target or target in FLOOR:
        return True
    return any(target == arrow or _in_package(target, arrow) for arrow in rooms.get(room, ()))


def _in_package(room: str, arrow: str) -> bool:
    """Return True if an entry such as ``store/*`` includes the room."""
    package = arrow.removesuffix("/*")
    return package != arrow and (room == package or room.startswith(f"{package}/"))


def small_modules(package: Path) -> set[str]:
    """Modules with few lines that at most one other module imports, without programs and workarounds."""
    edges = imports_of(package)
    importers = defaultdict(set)
    for name, targets in edges.items():
        for target in targets:
            importers[target].add(name)
    return {
        name.partition(".")[2]
        for name, path in modules_of(package).items()
        if path.stem not in ("__init__", "__main__")
        and room_of(package, path) not in OF_SMALL_MODULES
        and len(importers[name]) <= 1
        and path.read_text("utf-8").count("\n") < MIN_LINES
    }


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return the members of one import cycle; empty if there is no cycle."""
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for target in sorted(edges[name]):
            if found := walk(target, [*trail, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := walk(name, []))), [])


def public_classes(package: Path) -> dict[str, list[str]]:
    """The modules that define each public class."""
    where = defaultdict(list)
    for module, path in modules_of(package).items():
        for name in parsed(path).classes:
            if not name.startswith("_"):
                where[name].append(module)
    return where


def house(folder: Path, files: dict[str, str]) -> Path:
    """A package named rlpanel with these files in it."""
    for name, text in files.items():
        path = folder / "rlpanel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "rlpanel"


# -- the package -------------------------------------------------------------------------------------


def test_imports_follow_the_table() -> None:
    assert wrong_imports(PACKAGE) == []


def test_the_table_makes_no_circle() -> None:
    edges = {
        room: {target for target in ROOMS if target != room and _allowed(room, target, ROOMS)}
        for room in ROOMS
    }
    assert circle(edges) == []


def test_modules_make_no_circle() -> None:
    assert circle(imports_of(PACKAGE)) == []


def test_the_table_lists_every_room_and_no_other() -> None:
    there = {room_of(PACKAGE, path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert there == {*FLOOR, *ROOMS}


def test_a_room_is_read_at_a_glance() -> None:
    sizes = defaultdict(int)
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".js", ".css") and path.stem != "__init__":
            sizes[path.parent.relative_to(PACKAGE).as_posix()] += 1
    assert {room: size for room, size in sizes.items() if size > MAX_MODULES} == {}


def test_a_module_is_worth_a_file() -> None:
    assert small_modules(PACKAGE) == SMALL_MODULES.keys()


def test_no_two_modules_share_a_name() -> None:
    names = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        names[path.stem].append(path.relative_to(PACKAGE).as_posix())
    assert {name: paths for name, paths in names.items() if len(paths) > 1 and name not in SAME_FILE} == {}


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name for name, modules in public_classes(PACKAGE).items() if len(modules) > 1}
    assert shared - SAME_CLASS == set()


def test_every_room_says_what_it_is() -> None:
    for room in ROOMS:
        folder = PACKAGE / room
        if folder.is_dir():
            door = folder / "__init__.py"
            assert door.is_file(), f"{room} has no __init__.py"
            assert ast.get_docstring(ast.parse(door.read_text("utf-8"))), f"{room} does not say what it is"


# -- the checks find what is wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources/readers/tail.py", "from rlpanel.metrics import kl"),
        ("metrics/kl.py", "import rlpanel.api.run"),
        ("api/run.py", "def later():\n    from rlpanel.panels.ui.theme import x"),
        ("schema.py", "from rlpanel.api import run"),
        ("sources/readers/own.py", "from ...metrics import kl"),
        (
            "metrics/kl.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rlpanel.api.run",
        ),
        ("store/columns/splits.py", "from rlpanel.api import run"),
        ("app/page/page.py", "from rlpanel.app.server import server"),
    ],
    ids=[
        "another package",
        "plain import",
        "inside a function",
        "from the floor",
        "relative",
        "for the type checker",
        "from a room to its package",
        "another room of the package",
    ],
)
def test_an_import_that_is_not_allowed_is_found(tmp_path: Path, file: str, text: str) -> None:
    names = ["__init__.py", "schema.py", "metrics/__init__.py", "metrics/kl.py", "sources/__init__.py"]
    names += ["store/__init__.py", "api/run.py", "panels/ui/theme.py", "app/server/server.py"]
    package = house(tmp_path, dict.fromkeys(names, "") | {file: text})
    assert len(wrong_imports(package)) == 1


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = house(
        tmp_path,
        {
            "store/a.py": "from rlpanel.store import b",
            "store/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rlpanel.store.c",
            "store/c.py": "def f():\n    from rlpanel.store.a import y",
        },
    )
    assert circle(imports_of(package)) == [
        "rlpanel.store.a",
        "rlpanel.store.b",
        "rlpanel.store.c",
        "rlpanel.store.a",
    ]


def test_a_small_module_is_found_if_one_module_imports_it(tmp_path: Path) -> None:
    files = dict.fromkeys(("store/a.py", "store/b.py"), "import rlpanel.store.often") | {
        "store/often.py": "x = 1",
        "store/once.py": "x = 1",
        "store/long.py": "x = 1\n" * MIN_LINES,
        "store/c.py": "import rlpanel.store.once, rlpanel.store.long\n" * MIN_LINES,
        "panel_fixes/fix.py": "x = 1",
    }
    assert small_modules(house(tmp_path, files)) == {"store.a", "store.b", "store.once"}


def test_a_class_of_two_modules_is_found(tmp_path: Path) -> None:
    package = house(tmp_path, {"store/a.py": "class Piece: ...", "metrics/b.py": "class Piece: ..."})
    assert len(public_classes(package)["Piece"]) == 2


# -- names of constants ---------------------------------------------------------------------------

#: Other words for the largest or smallest value that is allowed.
_LIMITS = re.compile(r"_?(?:MOST|LEAST|FEWEST|LARGEST|SMALLEST|LONGEST|SHORTEST|MAXIMUM|MINIMUM)(?:_\w+)?")
#: A sentence about the least change, and the samples that a rise moves least.
_NO_LIMITS = {("bisection", "LEAST"), ("carried_changes", "_LEAST_MOVED")}


def test_limits_begin_with_max_or_min() -> None:
    found = {
        (path.stem, name)
        for path in PACKAGE.rglob("*.py")
        for name in parsed(path).constants
        if _LIMITS.fullmatch(name)
    }
    assert found == _NO_LIMITS


# -- the public names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", rlpanel.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rlpanel, name) is not None


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bord'"):
        rlpanel.bord  # noqa: B018
