"""Write the generated pages: ``make docs``. A test says when a page no longer tells what the code does.

A page is a file of its own, or the part of one between the marks ``<!-- begin: NAME -->`` and
``<!-- end: NAME -->``.
"""

from __future__ import annotations

from pathlib import Path

import param

from rlpanel import schema
from rlpanel.metrics import registry
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


_KINDS = {
    "text": "text",
    "tokens": "list of text, T",
    "array": "list of numbers, T",
    "number": "number",
    "label": "short text",
    "key": "whole number",
}


def fields_table() -> str:
    """Every key of a log line that rlpanel has a name for."""
    head = ["| key | type | what it is |", "|---|---|---|"]
    rows = [f"| {_keys(f)} | {_KINDS[f.kind]} | {f.help}{_unit(f.unit)} |" for f in schema.FIELDS]
    return "\n".join([*head, *rows])


def metrics_page() -> str:
    """Every metric that is declared."""
    head = [
        "| metric | level | unit | needs | sample columns | what it is | source |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| `{m.name}` {m.label} | {m.level} | {m.unit or '–'} | {_code(m.needs)} "
        f"| {_code(tuple(f'{m.name}_{r}' for r in m.reductions)) or '–'} | {m.help} | {m.source or '–'} |"
        for level in ("token", "sample")
        for m in registry.of_level(level)
    ]
    return "\n".join(["# Metrics", "", _FROM_REGISTRY, "", _READING, "", *head, *rows, ""])


_FROM_REGISTRY = "<!-- Generated from rlpanel/metrics by `make docs`; edit the declarations instead. -->"
_READING = (
    "A token metric has one value a token; its reductions are sample columns. The step's mean and standard "
    "deviation (ddof 1) are taken over samples, so `reward` becomes `reward_mean` and `reward_std`, and "
    "`kl_k3_mean` at a step is the mean over its samples of their mean per token. NaN and infinities do not "
    "count. `kl_k1_mean` and `kl_k1_sum` are other names of `log_ratio_mean` and `log_ratio_sum`."
)


def _keys(field: schema.Field) -> str:
    return ", ".join(f"`{key}`" for key in (field.name, *field.aliases))


def _unit(unit: str) -> str:
    return f" In {unit}." if unit == "nats" else ""


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def between(text: str, name: str, part: str) -> str:
    """``text`` with ``part`` between the marks of ``name``."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{part}\n{end}{after}"


def readme() -> str:
    """The README with its table of keys as they are declared."""
    return between((FOLDER.parent / "README.md").read_text("utf-8"), "fields", fields_table())


def pages() -> dict[Path, str]:
    """Every page that is generated, wholly or in part."""
    return {
        FOLDER / "settings.md": settings_page(),
        FOLDER / "metrics.md": metrics_page(),
        FOLDER.parent / "README.md": readme(),
    }


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
