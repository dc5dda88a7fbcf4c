"""One sample as text for a terminal: its numbers, then each of its texts under a heading."""

from __future__ import annotations

from typing import Any

from rlpanel.cli.output.terminal_messages import printable
from rlpanel.number_text import number
from rlpanel.queries.table import Table
from rlpanel.schema import TEXTS


def record_text(table: Table) -> str:
    """Return a table of one sample as lines; control characters of the log are replaced by spaces."""
    [row] = table.rows
    lines = [f"{table.about['run']} · {row['uid']} · step {row['step']}"]
    lines += [f"{name}: {row[name]}" for name in ("tag", "note") if row[name]]
    lines += _pairs(row["labels"]) + _pairs(row["numbers"])
    lines += [f"remark: {remark}" for remark in row["remarks"]]
    for name in TEXTS:
        if row[name] is not None:
            cut = f", cut from {row['chars'][name]:,} characters" if name in row["cut"] else ""
            lines += ["", f"── {name}{cut} ──", *row[name].splitlines()]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def _pairs(values: dict[str, Any]) -> list[str]:
    """Return names and values in aligned lines."""
    width = max(map(len, values), default=0)
    texts = {name: value if isinstance(value, str) else number(value) for name, value in values.items()}
    return [f"  {name:<{width}}  {text}" for name, text in texts.items()]
