"""Tables as a person reads them in a terminal: runs with ages and marks, and coloured tokens."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from io import StringIO
from typing import Any

from rlpanel.number_text import number, size_text
from rlpanel.queries.table import Table, TableColumn
from rlpanel.terminal_ui.run_marks import MARKS, age_text
from rlpanel.texts.harmless_text import printable

#: Columns of runs for a person, in order; those that a narrow terminal leaves out come last.
_RUNS = (
    "",
    "run",
    "step",
    "reward",
    "age",
    "trend",
    "finding",
    "samples",
    "size",
    "excluded",
    "split",
    "doubt",
)


def runs_for_people(table: Table, now: float | None = None) -> Table:
    """Return the table of runs with sizes and ages, and a mark for the worst finding."""
    now = time.time() if now is None else now
    rows = []
    for row in table.rows:
        modified = row["modified"]
        age = now - datetime.fromisoformat(modified).timestamp() if modified else None
        finding = row["finding"] or ({"": "none", None: "not checked"}.get(row["severity"], ""))
        rows.append(
            {
                **row,
                "": MARKS.get(row["severity"], ""),
                "age": None if age is None else age_text(age),
                "size": size_text(row["bytes"]),
                "finding": f"unread: {row['unread']}" if row["unread"] else finding,
            }
        )
    known = {column.name: column for column in table.columns}
    columns = tuple(known.get(name) or TableColumn(name, "text", "") for name in _RUNS)
    return replace(table, columns=columns, values={name: [row[name] for row in rows] for name in _RUNS})


def colored_sample(table: Table, width: int) -> str:
    """Return the tokens of a sample as coloured text with a legend; empty if no metric is known of them.

    Colours follow the scale of the run. The strongest tokens follow as numbers.
    """
    from rich.console import Console
    from rich.text import Text

    from rlpanel.metrics.engine.column_info import describe
    from rlpanel.terminal_ui.token_colors import (
        chosen_metric,
        colored_tokens,
        has_light_background,
        legend,
        strongest,
    )

    scales: dict[str, tuple[float, float]] = table.attrs.get("scales") or {}
    names = [column.name for column in table.columns if column.name in scales]
    metric = chosen_metric(names)
    if not metric or not table.rows:
        return ""
    light = has_light_background()
    texts = [str(row["token"] or "") for row in table.rows]
    values: list[Any] = [row[metric] for row in table.rows]
    untrained = [value == 0 for value in table.values.get("loss_mask", ())]
    output = StringIO()
    console = Console(
        file=output, width=width, force_terminal=True, legacy_windows=False, highlight=False, emoji=False,
        markup=False,
    )  # fmt: skip
    about = table.about
    console.print(Text(printable(f"{about['run']} · {about['uid']} · step {about['step']}"), style="bold"))
    console.print(legend(metric, scales[metric], describe(metric).unit, light=light))
    if any(untrained):
        console.print(Text("dim: tokens that the loss leaves out", style="dim"))
    console.print()
    console.print(colored_tokens(texts, values, metric, scales[metric], untrained=untrained, light=light))
    console.print()
    for at, text, value in strongest(texts, values, metric, scales[metric], 5):
        console.print(Text(f"{table.offset + at:>7}  {number(value):>9}  {text}"))
    others = [name for name in names if name != metric]
    if others:
        console.print(Text(f"--metric: {', '.join(others)}; --csv prints all numbers", style="dim"))
    return output.getvalue()
