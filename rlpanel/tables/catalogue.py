"""All tables by name, for the schemas and the documentation."""

from __future__ import annotations

from rlpanel.errors import SettingError
from rlpanel.tables.compare_rows import COMPARE
from rlpanel.tables.contrast_rows import CONTRAST
from rlpanel.tables.finding_rows import FINDINGS
from rlpanel.tables.group_rows import GROUPS
from rlpanel.tables.note_rows import NOTES
from rlpanel.tables.one_sample import SAMPLE, SAMPLE_TOKENS
from rlpanel.tables.prompt_rows import PROMPTS
from rlpanel.tables.run_columns import similar
from rlpanel.tables.run_rows import RUNS
from rlpanel.tables.sample_rows import SAMPLES
from rlpanel.tables.search_rows import SEARCH
from rlpanel.tables.sql_rows import SQL
from rlpanel.tables.step_rows import STEPS
from rlpanel.tables.table import TableSpec
from rlpanel.tables.token_rows import TOKENS

#: The tables that are printed and returned to agents.
TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        *(RUNS, STEPS, SAMPLES, SAMPLE, SAMPLE_TOKENS, GROUPS, PROMPTS, TOKENS),
        *(FINDINGS, CONTRAST, COMPARE, SEARCH, NOTES, SQL),
    )
}


def table_spec(name: str) -> TableSpec:
    """Return the declaration of a table.

    Raises
    ------
    SettingError
        If there is no such table.
    """
    if name not in TABLES:
        raise SettingError(f"there is no table {name[:80]!r}{similar(name, TABLES)}")
    return TABLES[name]
