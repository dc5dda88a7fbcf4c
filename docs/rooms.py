"""The table of rooms in `docs.layout` as a picture and as a list, for `docs/architecture.md`."""

from __future__ import annotations

import ast
from pathlib import Path

from docs.layout import FLOOR, ROOMS
from docs.packages_picture import Arrows, drawing

PACKAGE = Path(__file__).parents[1] / "rlpanel"


def picture() -> str:
    """Return the packages and their imports as SVG; an import that follows from two others is not drawn."""
    return drawing(without_shortcuts(packages()))


def packages() -> dict[str, set[str]]:
    """Package → packages that it may import; modules right in ``rlpanel`` count as packages."""
    arrows: dict[str, set[str]] = {}
    for room, targets in ROOMS.items():
        name = room.split("/")[0]
        found = arrows.setdefault(name, set())
        found |= {target.split("/")[0] for target in targets} - {name}
    return arrows


def without_shortcuts(arrows: Arrows) -> dict[str, set[str]]:
    """The arrows without those that follow from two or more others (transitive reduction)."""
    reach = {name: _reached(name, arrows) for name in arrows}
    return {
        name: {
            target for target in targets if not any(target in reach[other] for other in targets - {target})
        }
        for name, targets in arrows.items()
    }


def _reached(name: str, arrows: Arrows) -> set[str]:
    """All packages that are imported by a package or by what it imports."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(arrows.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def table() -> str:
    """Every room with the first line of its docstring and the rooms it may import."""
    head = ["| room | what it holds | imports |", "|---|---|---|"]
    floor = [f"| `{name}.py` | {first_line(PACKAGE / f'{name}.py')} | |" for name in FLOOR]
    rows = [f"| {_link(room)} | {first_line(_door(room))} | {_targets(room)} |" for room in ROOMS]
    return "\n".join([*head, *rows, *floor])


def _door(room: str) -> Path:
    folder = PACKAGE / room
    return folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{room}.py"


def _link(room: str) -> str:
    return f"`{room}/`" if (PACKAGE / room).is_dir() else f"`{room}.py`"


def _targets(room: str) -> str:
    return ", ".join(f"`{target}`" for target in ROOMS[room])


def first_line(module: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("|", "\\|")
