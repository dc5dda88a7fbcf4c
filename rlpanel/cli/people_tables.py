"""Tables as a person reads them in a terminal: runs, coloured tokens, and the lines of `index`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Any

from rlpanel.number_text import number, size_text
from rlpanel.queries.table import Table, TableColumn
from rlpanel.terminal_ui.cell_texts import MARKS, age_text
from rlpanel.texts.shorten import printable

if TYPE_CHECKING:
    from rlpanel.sources.inference.inference import Inference
    from rlpanel.store.snapshot.sample_places import BadLineAt
    from rlpanel.store.snapshot.snapshot import Snapshot


# -- people tables -------------------------------------------------------------------------------------
# Tables as a person reads them in a terminal: runs with ages and marks, and coloured tokens.


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


# -- index output --------------------------------------------------------------------------------------
# Makes the lines of `index` about inferred fields and about bad lines, as text and for JSON.


#: Characters of a bad line that are shown, and bytes that hold them.
_SHOWN, _BYTES = 80, 400


def inferred_document(inference: Inference) -> dict[str, Any]:
    """Return what was inferred about the files of one format, for JSON."""
    guesses = [
        {
            "field": guess.meaning,
            "key": guess.key,
            "confidence": guess.confidence,
            "reason": guess.reason,
            "others": [{"key": key, "confidence": confidence} for key, confidence in guess.others],
        }
        for guess in inference.guesses
    ]
    return {"fields": guesses, "step": inference.step, "missing": list(inference.missing)}


def inferred_lines(inferences: Sequence[Inference]) -> Iterator[str]:
    """Yield what was inferred: ``reward ← score.value, 98 % of the records are numbers``."""
    for inference in inferences:
        yield from (guess.sentence for guess in inference.guesses)


def bad_documents(folder: str | os.PathLike[str], bad: Sequence[BadLineAt]) -> list[dict[str, Any]]:
    """Return bad lines for JSON: file, line, offset, reason and the first characters."""
    return [
        {"file": line.file, "line": line.line, "offset": line.offset, "reason": line.reason}
        | {"text": _beginning(os.path.join(folder, line.file), line.offset)}
        for line in bad
    ]


def bad_lines(documents: Sequence[dict[str, Any]], total: int) -> Iterator[str]:
    """Yield bad lines as text, and how many others there are; control characters are written as escapes."""
    for document in documents:
        place = f"{document['line']}" if document["line"] else f"byte {document['offset']}"
        text = "".join(map(_escaped, document["text"]))
        yield f"{document['file']}:{place}: {document['reason']}" + (f": {text}" if text else "")
    if total > len(documents):
        yield f"{total - len(documents):,} more bad lines"


def array_documents(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the undeclared token arrays: name, name in tables of tokens, and samples with values."""
    import numpy as np

    from rlpanel.metrics.logged_arrays import array_names, query_names
    from rlpanel.schema import TOKEN_MEAN

    return [
        {
            "name": name,
            "column": column,
            "samples": int(np.isfinite(snapshot.number(TOKEN_MEAN + name)).sum()),
        }
        for column, name in query_names(array_names(snapshot.numbers)).items()
    ]


def arrays_left_out(snapshot: Snapshot) -> int:
    """Return how many arrays of one sample, at most, have no columns."""
    import numpy as np

    from rlpanel.schema import TOKEN_ARRAYS_LEFT_OUT

    if TOKEN_ARRAYS_LEFT_OUT not in snapshot.numbers:
        return 0
    return int(np.nan_to_num(snapshot.number(TOKEN_ARRAYS_LEFT_OUT)).max(initial=0))


def array_lines(documents: Sequence[dict[str, Any]], left_out: int) -> Iterator[str]:
    """Yield the undeclared token arrays, as text."""
    from rlpanel.schema import MAX_TOKEN_ARRAYS

    for array in documents:
        renamed = f", in tables {array['column']}" if array["column"] != array["name"] else ""
        yield f"token array {array['name']!r}{renamed}: {array['samples']:,} samples"
    if left_out:
        yield f"token arrays left out: {left_out:,} of a sample; the first {MAX_TOKEN_ARRAYS} have columns"


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _beginning(path: str, offset: int) -> str:
    """Return the first characters of a line; empty if its file is not one of lines, or is gone."""
    from rlpanel.sources.files.decompress import open_plain
    from rlpanel.sources.readers.containers import CELLS, DOCUMENT, LINES, container_of

    if container_of(path) not in (LINES, CELLS, DOCUMENT):  # of the others, an offset is not one of bytes
        return ""
    try:
        with open_plain(path) as file:
            while offset > 0 and (passed := file.read(min(offset, 1 << 20))):  # compressed files cannot seek
                offset -= len(passed)
            return file.read(_BYTES).partition(b"\n")[0].decode("utf-8", "replace")[:_SHOWN]
    except (OSError, ValueError):
        return ""
