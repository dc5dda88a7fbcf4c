"""Generates documentation pages from the code: ``make docs``. A test fails if a page is out of date.

A generated page is a whole file, or the part of a file between the marks ``<!-- begin: NAME -->`` and
``<!-- end: NAME -->``.
"""

from __future__ import annotations

import gettext
from collections.abc import Callable
from pathlib import Path

import param

from docs import rooms, trainer_cases, writers
from docs.cli_page import columns_of_tables, commands_table, first_columns
from docs.field_uses import uses_table
from docs.fixes import fixes_table
from docs.metrics_page import metrics_page
from docs.terminal_session import LINES, SHORT_LINES, TUTORIAL_LINES, session
from rlpanel import schema
from rlpanel.app.security.request_guard import ROUTES
from rlpanel.display_settings import Display
from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.rule import RULES, Rule
from rlpanel.lint.lint_rule import PARTS
from rlpanel.lint.linter import LINT_RULES
from rlpanel.settings import Alerts, FindingSettings, Reading, Training, Watching
from rlpanel.sources.records.message_spellings import SPELLINGS

FOLDER = Path(__file__).parent


def settings_page() -> str:
    """Return the page of all settings: name, default, bounds, help."""
    return "\n".join(
        [
            "# Settings",
            "",
            "<!-- Generated from settings.py and display_settings.py by `make docs`; edit these. -->",
            "",
            "## Display",
            "",
            "In the board's side panel. Each browser session has its own.",
            "",
            *_table(Display, by="label"),
            "",
            "## Reader",
            "",
            "Environment variables of the process that serves the board or reads the logs.",
            "",
            *_table(Reading, by="variable"),
            "",
            "## Constants of the training",
            "",
            "Environment variables, for runs whose `run.json` is missing or lacks a constant.",
            "",
            *_table(Training, by="variable"),
            "",
            "## Thresholds of findings",
            "",
            "Environment variables. For the rules, see [findings.md](findings.md).",
            "",
            *_table(FindingSettings, by="variable"),
            "",
            "## Alerts",
            "",
            "Environment variables of `rlpanel serve`. For how alerts work, see [alerts.md](alerts.md).",
            "",
            *_table(Alerts, by="variable"),
            "",
            "## Following runs",
            "",
            "Environment variable of `rlpanel serve`; see [deploy.md](deploy.md#health-and-metrics).",
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
    "messages": "list of objects",
    "array": "list of numbers, T",
    "number": "number",
    "label": "short text",
    "key": "whole number",
    "turns": "list of numbers",
    "versions": "whole number or list",
    "timing": "object of numbers",
    "texts": "object of text",
    "media": "list of text",
    "alternatives": "list of lists or objects, T",
    "experts": "list of lists of lists of integers, T",
    "judge_calls": "list of objects",
    "outputs": "text, or object of text",
}


def fields_table() -> str:
    """Return the table of all fields of a log line."""
    head = ["| key | type | meaning |", "|---|---|---|"]
    rows = [f"| {_keys(f)} | {_KINDS[f.kind]} | {f.help}{_unit(f.unit)} |" for f in schema.FIELDS]
    return "\n".join([*head, *rows])


_PARTS_OF_MESSAGES = {
    "role": "role",
    "message": "key of a message",
    "part": "type or only key of a part of the content",
    "call": "key of a tool call",
    "result": "key of a part that is a tool's result",
    "whole": "key of an object that holds the conversation",
}


def messages_table() -> str:
    """Return the table of the names that projects give to the parts of a conversation."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for kind, means, name, source in SPELLINGS:
        rows.setdefault((kind, means), {}).setdefault(source, []).append(f"`{name}`")
    head = ["| part | meaning | names in logs |", "|---|---|---|"]
    for (kind, means), names in rows.items():
        logged = "; ".join(f"{', '.join(group)} ({source})" for source, group in names.items())
        head.append(f"| {_PARTS_OF_MESSAGES[kind]} | {means} | {logged} |")
    return "\n".join(head)


#: Pictures of rules on the board: rule → file in ``docs/images/findings``, as in docs/broken-runs.md.
RULE_PICTURES = {
    "invalid_text": "invalid_text_in_category",
    "rank_repeats": "rank_repeats",
    "truncated": "truncation_jump",
    "kl_spike": "kl_spike",
    "advantage_sign": "advantage_sign",
    "empty_responses": "empty_responses_on_rank",
    "critic_variance": "critic_useless",
    "missing_rewards": "rewards_missing",
    "not_finite": "nan_logprobs",
    "sustained_change": "reward_cliff",
}


def findings_pages() -> dict[Path, str]:
    """Return the page on findings in each language, with the generated entries of all declared rules.

    Each rule has a heading, so that a link leads to it: ``findings.md#kl-spike--kl_spike``. Titles are
    translated as on the board; conditions are English in both.
    """
    titles = {"findings.md": str, "findings.zh.md": _chinese().gettext}
    return {FOLDER / name: _with_rules(FOLDER / name, title) for name, title in titles.items()}


def _chinese() -> gettext.NullTranslations:
    """Return the board's Chinese catalogue."""
    folder = FOLDER.parent / "rlpanel" / "panels" / "language" / "zh_CN" / "LC_MESSAGES"
    with (folder / "server.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def _with_rules(path: Path, title: Callable[[str], str]) -> str:
    entries = "\n\n".join(_rule_entry(each, title(each.label)) for each in RULES.values())
    return between(path.read_text("utf-8"), "rules", f"\n{entries}\n")


def _rule_entry(of: Rule, title: str) -> str:
    """Return the entry of one rule: heading, condition, thresholds and picture."""
    parts = [f"### {title} · `{of.name}`", of.help]
    if of.thresholds:
        parts.append(f"Thresholds: {_thresholds(of)}.")
    if of.name in RULE_PICTURES:
        parts.append(f"![{of.label} on the board](images/findings/{RULE_PICTURES[of.name]}.png)")
    return "\n\n".join(parts)


def lint_page() -> str:
    """Return the page on lint, with a generated entry for each rule."""
    parts = []
    for part in PARTS:
        parts.append(f"### {part[0].upper()}{part[1:]}")
        for rule in (rule for rule in LINT_RULES.values() if rule.part == part):
            parts += [f"#### {_as_text(rule.title)} · `{rule.name}`", _as_text(rule.formula)]
    entries = "\n\n".join(parts)
    return between((FOLDER / "lint.md").read_text("utf-8"), "lint", f"\n{entries}\n")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _as_text(text: str) -> str:
    """Return Markdown in which names such as <think> are no HTML."""
    return text.replace("<", "\\<")


def _thresholds(rule: Rule) -> str:
    names = rule.thresholds
    return (
        ", ".join(f"`RLPANEL_{name.upper()}` {_threshold(FindingSettings.param[name])}" for name in names)
        or "–"
    )


def _threshold(parameter: param.Parameter) -> str:
    return "not set" if parameter.default is None else f"{parameter.default:g}"


def _keys(field: schema.Field) -> str:
    return ", ".join(f"`{key}`" for key in (field.name, *field.aliases))


def _unit(unit: str) -> str:
    return f" In {unit}." if unit == "nats" else ""


def between(text: str, name: str, part: str) -> str:
    """Return ``text`` with ``part`` between the marks of ``name``."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{part}\n{end}{after}"


def readmes() -> dict[Path, str]:
    """Return the README in each language, with its short session in a terminal."""
    part = session(SHORT_LINES, "grpo_calculator")
    paths = (FOLDER.parent / "README.md", FOLDER.parent / "README.zh.md")
    return {path: between(path.read_text("utf-8"), "session", part) for path in paths}


def log_page() -> str:
    """Return the page on a line of a log, with the generated tables of fields and of messages' spellings."""
    text = between((FOLDER / "log.md").read_text("utf-8"), "fields", fields_table())
    text = between(text, "uses", uses_table())
    return between(text, "messages", messages_table())


def tutorials() -> dict[Path, str]:
    """Return the tutorial in each language, with what its commands print."""
    paths = (FOLDER / "tutorial.md", FOLDER / "tutorial.zh.md")
    texts = {path: path.read_text("utf-8") for path in paths}
    for name, line in TUTORIAL_LINES.items():
        part = session([line], "grpo_calculator")
        texts = {path: between(text, name, part) for path, text in texts.items()}
    return texts


def cli_page() -> str:
    """Return the page on the command line, with its commands, a session and the columns of its tables."""
    text = (FOLDER / "cli.md").read_text("utf-8")
    text = between(text, "long-session", session(LINES, "grpo_couplets"))
    return between(between(text, "commands", commands_table()), "tables", columns_of_tables())


def sql_page() -> str:
    """Return the page on SQL, with the columns that are looked at first."""
    return between((FOLDER / "sql.md").read_text("utf-8"), "columns", first_columns())


def routes_table() -> str:
    """Return the table of the server's routes, with each one's access and the reason."""
    head = ["| route | access | reason |", "|---|---|---|"]
    rows = [f"| `{_cell(route)}` | {access.value} | {why} |" for route, (access, why) in ROUTES.items()]
    return "\n".join([*head, *rows])


def reliability() -> str:
    """Return the page on attacks and faults, with the generated table of the server's routes."""
    return between((FOLDER / "reliability.md").read_text("utf-8"), "routes", routes_table())


def architecture() -> str:
    """Return the page on the package's structure, with tables of its rooms and of its workarounds."""
    text = between((FOLDER / "architecture.md").read_text("utf-8"), "rooms", rooms.table())
    return between(text, "fixes", fixes_table())


def adapters() -> str:
    """Return the page on trainers' formats, with the tables of executed writers and of hard cases."""
    text = between((FOLDER / "adapters.md").read_text("utf-8"), "writers", writers.writers_table())
    return between(text, "cases", trainer_cases.cases_table())


def pages() -> dict[Path, str]:
    """Return all pages that are generated, wholly or in part."""
    return {
        FOLDER / "settings.md": settings_page(),
        FOLDER / "metrics.md": metrics_page(),
        **findings_pages(),
        FOLDER / "lint.md": lint_page(),
        FOLDER / "reliability.md": reliability(),
        FOLDER / "adapters.md": adapters(),
        FOLDER / "architecture.md": architecture(),
        FOLDER / "images" / "packages.svg": rooms.picture(),
        FOLDER / "cli.md": cli_page(),
        FOLDER / "sql.md": sql_page(),
        FOLDER / "log.md": log_page(),
        **tutorials(),
        **readmes(),
    }


def main() -> None:
    """Write the generated pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
