"""Write the generated pages: ``make docs``. A test says when a page no longer tells what the code does."""

from __future__ import annotations

from pathlib import Path

import param

from rlpanel.settings import Display, Reading

FOLDER = Path(__file__).parent


def settings_page() -> str:
    """The page on every setting: name, default, bounds, help."""
    return "\n".join(
        [
            "# Settings",
            "",
            "<!-- Generated from rlpanel/settings.py by `make docs`; edit that file instead. -->",
            "",
            "## What a viewer may turn",
            "",
            "In the board's side panel; each browser session has its own.",
            "",
            *_table(Display, by="label"),
            "",
            "## How the reader behaves",
            "",
            "Environment variables of the process that serves or reads.",
            "",
            *_table(Reading, by="variable"),
            "",
        ]
    )


def _table(settings: type[param.Parameterized], by: str) -> list[str]:
    head = ["| setting | default | allowed | what it does |", "|---|---|---|---|"]
    return head + [_row(settings.param[name], by) for name in settings.param if name != "name"]


def _row(setting: param.Parameter, by: str) -> str:
    name = setting.label if by == "label" else f"`RLPANEL_{setting.name.upper()}`"
    cells = (name, _default(setting), _allowed(setting), setting.doc)
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _default(setting: param.Parameter) -> str:
    if isinstance(setting, param.Selector):
        return next(label for label, value in setting.names.items() if value == setting.default)
    if isinstance(setting, param.Boolean):
        return "on" if setting.default else "off"
    return f"`{setting.default}`" if setting.default != "" else "empty"


def _allowed(setting: param.Parameter) -> str:
    if isinstance(setting, param.Selector):
        return ", ".join(setting.names)
    if isinstance(setting, param.Boolean):
        return "on, off"
    if isinstance(setting, param.Number):
        low, high = setting.bounds
        return f"`{low}` to `{high}`"
    return "any text"


def main() -> None:
    """Write the pages beside this file."""
    (FOLDER / "settings.md").write_text(settings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
