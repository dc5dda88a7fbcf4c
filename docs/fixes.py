"""Table of the workarounds of Panel, Bokeh, HoloViews and Tornado, from what each module says of itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "rlpanel" / "panel_fixes"
_LINES = re.compile(r"^(Upstream|Needed by|Delete when): (.+(?:\n .+)*)", re.MULTILINE)
_THREAD = re.compile(r"https://github\.com/([\w-]+)/[\w-]+/(issues|pull)/(\d+)")
_REPORT = re.compile(r"docs/(upstream/([\w-]+)\.md)")


def fixes() -> list[Path]:
    """Return the modules of workarounds."""
    return sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")


def facts(path: Path) -> dict[str, str]:
    """Return what a workaround says of itself: its first line as ``Wrong``, and its closing lines."""
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    first = said.partition("\n")[0]
    return {"Wrong": first, **dict(_LINES.findall(said))}


def fixes_table() -> str:
    """Return the table of the page on the architecture."""
    rows = [
        "| module | what it does | upstream | needed by | delete when |",
        "|---|---|---|---|---|",
    ]
    for path in fixes():
        said = facts(path)
        thread = _THREAD.sub(lambda found: f"[{found[1]} #{found[3]}]({found[0]})", said["Upstream"])
        thread = _REPORT.sub(r"[report](\1)", thread)
        cells = (f"`{path.name}`", said["Wrong"], thread, said["Needed by"], said["Delete when"])
        rows.append("| " + " | ".join(" ".join(cell.split()).replace("``", "`") for cell in cells) + " |")
    return "\n".join(rows)
