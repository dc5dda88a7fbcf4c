"""Write the generated pages: ``make docs``. A test says when a page no longer tells what the code does.

A page is a file of its own, or the part of one between the marks ``<!-- begin: NAME -->`` and
``<!-- end: NAME -->``.
"""

from __future__ import annotations

from pathlib import Path

import param

from docs import rooms
from rlpanel import schema
from rlpanel.app.security.request_guard import ROUTES
from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.rule import RULES, Rule
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.constants import DECLARED
from rlpanel.settings import Alerts, Display, FindingSettings, Reading, Training, Watching

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
            "## What formulas need to know of the training",
            "",
            "Environment variables, for runs without a `run.json` that says it.",
            "",
            *_table(Training, by="variable"),
            "",
            "## From where on a rule makes a finding",
            "",
            "Environment variables; what the rules are: [findings.md](findings.md).",
            "",
            *_table(FindingSettings, by="variable"),
            "",
            "## Where findings go by themselves",
            "",
            "Environment variables of `rlpanel serve`; how it works: [alerts.md](alerts.md).",
            "",
            *_table(Alerts, by="variable"),
            "",
            "## Which runs a server follows",
            "",
            "Environment variable of `rlpanel serve`; why: [deploy.md](deploy.md#health-and-metrics).",
            "",
            *_table(Watching, by="variable"),
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
    if setting.default is None:
        return "not set"
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


def findings_page() -> str:
    """Every rule that is declared, with its thresholds."""
    head = ["| rule | fires where | threshold |", "|---|---|---|"]
    rows = [f"| {r.label} | {_cell(r.help)} | {_thresholds(r)} |" for r in RULES.values()]
    return "\n".join(["# Findings", "", _FINDINGS, "", *head, *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _thresholds(rule: Rule) -> str:
    names = rule.thresholds
    return (
        ", ".join(f"`RLPANEL_{name.upper()}` {FindingSettings.param[name].default:g}" for name in names)
        or "–"
    )


_LEVELS = {
    "token": (
        "By token",
        "One value a token, drawn in the token view. Its reductions are columns of the sample.",
    ),
    "sample": ("By sample", "One value a sample: columns of the grid, and curves with bands over the steps."),
    "group": (
        "By group",
        "One value for the samples of a prompt in a step, that have the same id or prompt.",
    ),
    "step": ("By step", "One value a step, pooled over its samples or tokens: curves without bands."),
}


def metrics_page() -> str:
    """Every metric that is declared, level by level."""
    parts = ["# Metrics", "", _FROM_REGISTRY, "", _READING, ""]
    for level, (title, text) in _LEVELS.items():
        shown = [m for m in column_info.shown() if m.level == level]
        parts += [f"## {title}", "", text, "", *(line for m in shown for line in _metric(m)), ""]
    return "\n".join([*parts, *_constants(), *_aliases()])


def _metric(m: column_info.Metric) -> list[str]:
    """A metric as an entry of a list: its formula, its reading, what it takes and what it is called."""
    columns = tuple(f"{m.name}_{r}" for r in m.reductions)
    facts = [
        f"needs {_code((*m.needs, *m.constants)) or 'groups'}",
        f"columns {_code(columns)}" if columns else "",
        f"in {m.unit}" if m.unit else "",
        f"good: {m.good}" if m.good else "",
        f"source: {m.source}" if m.source else "",
        f"also known as {_code(tuple(m.aliases))}" if m.aliases else "",
    ]
    return [f"- **{m.label}** `{m.name}`: {m.help} {m.advice}", f"  ({'; '.join(f for f in facts if f)})"]


_FINDINGS = """<!-- Generated from rlpanel/findings/rules by `make docs`; edit the rules instead. -->

A rule looks at the complete steps of a run and says what it saw, with the numbers: no more. The badge at the
top right counts the findings; a click on one shows its step, its curve and the samples behind it. A run that
nothing is wrong with has none. An alarm (▲) says that training can hardly go on like this, a warning (●) that
it is worth a look. Where a rule needs a field that nobody logs, it is silent.

Rewards are compared within groups, and shares by category (any short text logged with the samples, such as a
language), because pooled over different prompts such contrasts mislead."""


def _constants() -> list[str]:
    """The constants of the training that formulas ask for."""
    head = ["| constant | keys in `run.json` | usual value | what it is |", "|---|---|---|---|"]
    rows = [f"| {c.label} | {_code((c.name, *c.keys))} | {_usual(c.usual)} | {c.help} |" for c in DECLARED]
    return ["## Constants of the training", "", _CONSTANTS, "", *head, *rows, ""]


def _usual(value: float | None) -> str:
    return "–" if value is None else f"`{value:g}`"


def _aliases() -> list[str]:
    """The names that trainers log numbers under."""
    head = ["| name in TRL | here |", "|---|---|"]
    rows = [f"| `{alias}` | `{name}` |" for alias, name in sorted(column_info.aliases().items())]
    return ["## Under the names of TRL", "", _ALIASES, "", *head, *rows, ""]


_FROM_REGISTRY = "<!-- Generated from rlpanel/metrics by `make docs`; edit the declarations instead. -->"
_READING = (
    "The step's mean and standard deviation (ddof 1) of a sample's number are taken over samples, so "
    "`reward` becomes `reward_mean` and `reward_std`, and `kl_k3_mean` at a step is the mean over its "
    "samples of their mean per token. NaN and infinities do not count: a missing value is missing in its "
    "own row and nowhere else. `kl_k1_mean` and `kl_k1_sum` are other names of `log_ratio_mean` and "
    "`log_ratio_sum`."
)
_CONSTANTS = (
    "A log's rows lack the coefficients that some formulas need. They are taken from `run.json` beside the "
    "rows, which rlpanel's recorder writes, else from settings (`RLPANEL_KL_COEF` and so on), else they are "
    "read off the rows and shown with their fit. Where a usual value stands in, the board says so."
)
_ALIASES = (
    "The curve menu finds a number under these names as well. TRL logs three different numbers as `kl`, so "
    "that name comes with its trainer's."
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


def routes_table() -> str:
    """Every route of the server, with the decision about it."""
    head = ["| route | who may use it | why |", "|---|---|---|"]
    rows = [f"| `{_cell(route)}` | {access.value} | {why} |" for route, (access, why) in ROUTES.items()]
    return "\n".join([*head, *rows])


def reliability() -> str:
    """The page on attacks and faults, with the server's routes as they are declared."""
    return between((FOLDER / "reliability.md").read_text("utf-8"), "routes", routes_table())


def architecture() -> str:
    """The page on the package's structure, with its packages as a picture and its rooms as a table."""
    text = (FOLDER / "architecture.md").read_text("utf-8")
    return between(between(text, "packages", rooms.picture()), "rooms", rooms.table())


def pages() -> dict[Path, str]:
    """Every page that is generated, wholly or in part."""
    return {
        FOLDER / "settings.md": settings_page(),
        FOLDER / "metrics.md": metrics_page(),
        FOLDER / "findings.md": findings_page(),
        FOLDER / "reliability.md": reliability(),
        FOLDER / "architecture.md": architecture(),
        FOLDER.parent / "README.md": readme(),
    }


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
