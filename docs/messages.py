"""Extracts the board's labels, updates the catalogues of `rlpanel/panels/language` and compiles them.

Run ``make messages``. A new label is added without a translation; tests fail until it has one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

import rlpanel.findings.check  # noqa: F401 - declares the rules
from rlpanel import schema
from rlpanel.analysis.episode_tree import EPISODE_REMARKS
from rlpanel.analysis.rollout_tree import REMARKS
from rlpanel.analysis.run_comparison import BY_WORDS, EXACT, TOO_MANY
from rlpanel.bisect.bisection import STAGES, TEMPLATES
from rlpanel.display_settings import Display
from rlpanel.divergence.run_divergence import CAVEATS
from rlpanel.drift.corrections import CORRECTIONS, LOGGED_TITLE
from rlpanel.drift.gap_cause_kinds import CAUSES
from rlpanel.drift.gap_levels import DIMENSIONS
from rlpanel.drift.taken_away import TAKEN_FROM
from rlpanel.findings.engine.finding import SEVERITIES
from rlpanel.findings.engine.rule import RULES
from rlpanel.lint.linter import LINT_RULES
from rlpanel.metrics.engine.column_info import METRICS, computed_columns, describe
from rlpanel.metrics.engine.definition import COLUMNS
from rlpanel.panels.language.finding_phrases import EVIDENCE, FORMULAS, LINT, SENTENCES
from rlpanel.panels.language.labels import BROWSER, CATALOGUES, FOLDER, SERVER
from rlpanel.panels.language.phrase_parts import PARTS
from rlpanel.panels.session.context import Selection
from rlpanel.store.query.curriculum import EFFECTS
from rlpanel.store.snapshot.prompt_classes import MISSING
from rlpanel.texts.final_answers import RULES as ANSWER_RULES
from rlpanel.update.update_tree import REASONS

PACKAGE = Path(__file__).parents[1] / "rlpanel"
_KEYWORDS = {
    SERVER: {"tr": None, "tr_html": None, "trn": (1, 2), "marked": None},
    BROWSER: {"t": None},
}
_METHODS = {SERVER: ("python", "*.py"), BROWSER: ("javascript", "*.js")}


def extracted(domain: str) -> Catalog:
    """Return the messages of the code, without translations."""
    catalog = Catalog()
    method, pattern = _METHODS[domain]
    for path in sorted(PACKAGE.rglob(pattern)):
        found = extract_from_file(method, path, keywords=_KEYWORDS[domain])
        for _, message, _, _ in found:
            catalog.add(message, locations=[(str(path.relative_to(PACKAGE)), 0)])
    if domain == SERVER:
        for text in _declared():
            catalog.add(text, locations=[("display_settings.py", 0)])
    return catalog


def _declared() -> Iterator[str]:
    """Yield texts of other packages that the panels translate: labels and help of settings, and notes."""
    yield from (EXACT, BY_WORDS, TOO_MANY)
    yield from (rule.label for rule in RULES.values())
    yield from (each.title for each in (*LINT_RULES.values(), *CORRECTIONS.values(), *CAUSES.values()))
    yield from (*DIMENSIONS, *TAKEN_FROM, LOGGED_TITLE, *EFFECTS, *MISSING)
    yield from (*TEMPLATES, *STAGES)
    yield from SEVERITIES
    for each in LINT_RULES.values():
        yield from (each.formula, each.otherwise)
        fields = [schema.BY_NAME[need] for need in each.needs if need in schema.BY_NAME]
        yield from (field.help for field in fields if field.help)
    yield from FORMULAS
    for phrases in (PARTS, SENTENCES, EVIDENCE, LINT):
        yield from (text for texts in phrases.values() for text in texts)
    yield from sentences_of_findings()
    yield from texts_of_columns()
    yield from (rule.key for rule in ANSWER_RULES.values())
    yield from CAVEATS.values()
    yield from (*REMARKS, *EPISODE_REMARKS, *REASONS)
    shown = [Display.param[name] for name in Display.param if name != "name"]
    for parameter in (*shown, Selection.param["align"], Selection.param["smooth"]):
        yield from filter(None, (parameter.label, parameter.doc))
        yield from (str(label) for label in getattr(parameter, "names", None) or ())


def texts_of_columns() -> Iterator[str]:
    """Yield the texts of all columns that the board shows: labels, units, meanings and advice."""
    names = {
        name for each in METRICS.values() if not each.hidden for name in (each.name, *each.columns.values())
    }
    for name in sorted(names | computed_columns() | COLUMNS.keys() | schema.BY_NAME.keys()):
        column = describe(name)
        if not name.startswith("_"):
            yield from filter(None, (column.label, column.unit, column.help, column.advice))
            yield from filter(None, (column.definition.pair,))


def sentences_of_findings() -> Iterator[str]:
    """Yield the whole sentences of the findings that have no values, such as an advice."""
    for path in sorted((PACKAGE / "findings").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        parts = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
        }
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in parts | docs else None
            if (
                isinstance(text, str)
                and text.endswith((".", "?"))
                and text.count(" ") >= 3
                and "{" not in text
            ):
                yield text


def po_path(language: str, domain: str) -> Path:
    """Return the file that translators edit."""
    return FOLDER / CATALOGUES[language] / "LC_MESSAGES" / f"{domain}.po"


def read(language: str, domain: str) -> Catalog:
    """Return a catalogue as it is carried."""
    path = po_path(language, domain)
    with path.open("rb") as file:
        return read_po(file, locale=CATALOGUES[language])


def main() -> None:
    """Update and compile all catalogues."""
    for language in CATALOGUES:
        for domain in (SERVER, BROWSER):
            path = po_path(language, domain)
            path.parent.mkdir(parents=True, exist_ok=True)
            catalog = read(language, domain) if path.exists() else Catalog(locale=CATALOGUES[language])
            created = catalog.creation_date
            catalog.update(extracted(domain), no_fuzzy_matching=True)
            catalog.creation_date = created  # else the files change although no label did
            catalog.obsolete.clear()
            catalog.fuzzy = False
            with path.open("wb") as file:
                write_po(file, catalog, width=110, sort_output=True, omit_header=False, include_lineno=False)
            with path.with_suffix(".mo").open("wb") as file:
                write_mo(file, catalog)


if __name__ == "__main__":
    main()
