"""One sample of a run: its texts and numbers as a table of one row, and its tokens as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.api.run import Run
from rlpanel.metrics.engine.compute import token_values
from rlpanel.schema import Sample
from rlpanel.store.query.sample_notes import Notes
from rlpanel.tables.cut_texts import CUT, TEXT_COLUMNS, cut_texts
from rlpanel.tables.run_columns import chosen, number_column
from rlpanel.tables.sample_rows import PLACE, TAG
from rlpanel.tables.table import RUN, Table, TableColumn, TableSpec, page
from rlpanel.texts.display_text import decode
from rlpanel.texts.shorten import TextLimit

SAMPLE = TableSpec(
    "sample",
    "One sample of a run, with its texts and numbers.",
    (
        *PLACE,
        *TAG,
        TableColumn("file", "text", "File of the sample, below the run's folder."),
        TableColumn("line", "integer", "Line of the sample in its file, from 1; 0 if it is not known yet."),
        *TEXT_COLUMNS,
        CUT,
        TableColumn("chars", "object", "Number of characters of each text."),
        TableColumn("messages", "objects", "The conversation as chat messages, if it was logged as such."),
        TableColumn("numbers", "object", "Numbers of the log and metrics, by column."),
        TableColumn("labels", "object", "Short texts of the log, by key."),
        TableColumn("extra", "object", "Values of keys that rlpanel does not know."),
        TableColumn("tokens", "integer", "Number of logged response tokens."),
        TableColumn("metrics", "texts", "Token metrics that the sample has."),
        TableColumn("remarks", "texts", "Remarks on oddities of the sample."),
    ),
    about=(RUN,),
)

SAMPLE_TOKENS = TableSpec(
    "sample_tokens",
    "The response tokens of one sample, in order.",
    (
        TableColumn("position", "integer", "Position of the token in the response, from 0."),
        TableColumn("token", "text", "The token's text; empty if a later token completes its character."),
        TableColumn("logged", "text", "The token as it was logged."),
    ),
    "Further columns are numbers: token metrics such as kl_k3, value and surprisal.",
    about=(
        RUN,
        TableColumn("uid", "text", "The sample's identifier."),
        TableColumn("step", "integer", "Policy update."),
        TableColumn("available", "texts", "Token metrics that the sample has."),
    ),
)


def sample(run: Run, uid: str, *, limits: TextLimit | None = None) -> Table:
    """Return one sample with its texts and numbers, as a table of one row.

    Parameters
    ----------
    run : Run
    uid : str
    limits : TextLimit, optional
        Which part of each text is returned, also of those in messages; whole texts by default.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SourceChanged
        If its line in the file has changed or was deleted.
    """
    limits = limits or TextLimit()
    found = run.sample(uid)
    note = Notes(run.path).of(found.uid)
    texts = {name: getattr(found, name) for name in schema.TEXTS}
    row: dict[str, Any] = {
        "uid": found.uid,
        "step": found.step,
        "rank": found.rank,
        "tag": note.tag or None,
        "note": note.note or None,
        "file": found.file,
        "line": found.line,
        "chars": {name: len(text) for name, text in texts.items() if text is not None},
        "messages": _cut_strings(list(found.messages), limits),
        "numbers": {name: value for name, value in found.columns.items() if np.isfinite(value)},
        "labels": _labels(found),
        "extra": _cut_strings(found.extra, limits),
        "tokens": len(found.response_tokens or ()),
        "metrics": list(token_values(found.arrays())),
        "remarks": list(found.notes),
    }
    return SAMPLE.table([row | cut_texts(texts, limits)], about={"run": run.name})


def sample_tokens(
    run: Run, uid: str, *, metrics: Sequence[str] | None = None, limit: int | None = None, offset: int = 0
) -> Table:
    """Return the response tokens of one sample with token metrics.

    Parameters
    ----------
    run : Run
    uid : str
    metrics : sequence of str, optional
        Token metrics; all by default.
    limit : int, optional
        Maximum number of tokens; all by default.
    offset : int
        Number of tokens to skip.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SourceChanged
        If its line in the file has changed or was deleted.
    SettingError
        If the sample does not have a metric.
    """
    found = run.sample(uid)
    values = token_values(found.arrays())
    names = chosen(metrics, values, values, f"sample {found.uid}")
    logged = found.response_tokens or []
    count = len(logged) or max((len(array) for array in values.values()), default=0)
    texts: list[str | None] = [None] * count
    if logged:
        texts = [*decode(logged, response=found.response, loss_mask=found.loss_mask).texts]

    positions = page(range(count), offset, limit)
    rows = [
        {
            "position": position,
            "token": texts[position],
            "logged": logged[position] if logged else None,
            **{name: values[name][position] for name in names if position < len(values[name])},
        }
        for position in positions
    ]
    about = {"run": run.name, "uid": found.uid, "step": found.step, "available": list(values)}
    others = [number_column(name) for name in names]
    return SAMPLE_TOKENS.table(rows, others=others, total=count, offset=offset, about=about)


def _labels(found: Sample) -> Mapping[str, str]:
    labels = {name: getattr(found, name) for name in schema.LABELS}
    return {name: text for name, text in labels.items() if text is not None}


def _cut_strings(value: Any, limits: TextLimit) -> Any:
    """Return a value of JSON with the texts in it cut to the limit, from their beginnings."""
    if isinstance(value, str):
        return value if limits.chars is None else value[: limits.chars]
    if isinstance(value, Mapping):
        return {key: _cut_strings(item, limits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut_strings(item, limits) for item in value]
    return value
