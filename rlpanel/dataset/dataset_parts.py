"""Splits a run into ranges of steps, whose samples and tokens any process can make on its own.

A part holds the numbers of its samples, and says where their lines are. A worker that can read the run's
files makes the tokens of a part without the run's index. All parts of a run have one schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rlpanel.errors import QueryError, RLPanelError, install_command
from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.logged_arrays import array_names, query_names
from rlpanel.sources.readers.containers import Container, open_reader
from rlpanel.sources.records.record_types import Adapter, Locator
from rlpanel.sql.run_query import HEAD, tokens_of
from rlpanel.sql.sample_relation import samples_arrow

if TYPE_CHECKING:
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.snapshot.run_view import RunView

#: Bytes of lines of a part; a step of more is several parts.
PART_BYTES = 32 << 20
#: Tokens of one table of a part.
TABLE_TOKENS = 1 << 18

Kind = Literal["samples", "tokens"]


@dataclass(frozen=True)
class SourceFile:
    """What opens a file of the run: the arguments of `open_reader`."""

    container: Container | None
    path: str
    name: str
    adapter: Adapter
    line_bytes: int


@dataclass(frozen=True)
class DatasetPart:
    """Samples of a range of steps.

    Attributes
    ----------
    name : str
        Steps and number of the part, as in the name of its file.
    samples : pyarrow.Table
        One row per sample, with the columns of `Run.samples`.
    files : dict of int to SourceFile
    places : list of tuple
        Number of the file, and the fields of a `Locator`, of each sample.
    arrays : dict of str to str
        Token arrays of the log that rlpanel does not know, by the name of their column.
    constants : Constants
    """

    name: str
    samples: Any
    files: dict[int, SourceFile]
    places: list[tuple[int, tuple[int, int, int, int, int]]]
    arrays: dict[str, str]
    constants: Constants


@dataclass
class UnreadSamples:
    """Samples whose line could not be read, and why the first could not."""

    samples: int = 0
    reason: str = ""


def parts_of(index: RunIndex, view: RunView, size: int = PART_BYTES) -> list[DatasetPart]:
    """Return the samples of a run that count, in parts of at most ``size`` bytes of lines, by steps.

    Raises
    ------
    QueryError
        If pyarrow is not installed.
    """
    table, snapshot = samples_arrow(view), view.snapshot
    table = table.cast(samples_schema(table.schema))
    rows = np.arange(snapshot.rows)[snapshot.alive]
    step, length = snapshot.metadata("step")[rows], snapshot.metadata("length")[rows]
    order = np.argsort(step, kind="stable")
    arrays = query_names(array_names(snapshot.numbers))
    found: list[DatasetPart] = []
    for chosen in _ranges(step[order], length[order], size):
        inside = order[chosen]
        mine = rows[inside]
        columns = [snapshot.metadata(name)[mine] for name in ("file", "offset", "length", "part", "hash")]
        file, offset, count, part, digest = (column.tolist() for column in columns)
        lines = snapshot.lines(mine).tolist()
        places = list(zip(file, zip(offset, count, lines, part, digest, strict=True), strict=True))
        files = {number: _source(index, snapshot.files[number]) for number in sorted(set(file))}
        first, last = int(step[inside[0]]), int(step[inside[-1]])
        name = f"steps-{first:08d}-{last:08d}-{len(found):05d}"
        taken = table.take(inside)
        found.append(DatasetPart(name, taken, files, places, arrays, snapshot.constants))
    return found


def samples_schema(schema: Any) -> Any:
    """Return a schema with texts instead of dictionaries, which differ from one part to the next."""
    import pyarrow

    return pyarrow.schema(
        pyarrow.field(field.name, pyarrow.string() if pyarrow.types.is_dictionary(field.type) else field.type)
        for field in schema
    )


def tokens_schema(arrays: Sequence[str]) -> Any:
    """Return the schema of the tokens of a run with these token arrays of its own."""
    import pyarrow

    types = {"uid": pyarrow.string(), "token": pyarrow.string()}
    types |= dict.fromkeys(("step", "rank", "position", "token_id"), pyarrow.int64())
    names = [*HEAD, *(metric.name for metric in of_level("token") if not metric.hidden), *arrays]
    return pyarrow.schema([(name, types.get(name, pyarrow.float64())) for name in dict.fromkeys(names)])


def token_tables(part: DatasetPart, unread: UnreadSamples) -> Iterator[Any]:
    """Yield the tokens of a part as tables of some 260,000 rows; samples that cannot be read are counted."""
    schema = tokens_schema(list(part.arrays))
    readers = {number: open_reader(*_arguments(file)) for number, file in part.files.items()}
    uids, ranks = part.samples["uid"].to_pylist(), part.samples["rank"].to_pylist()
    samples: list[dict[str, np.ndarray]] = []
    held = 0
    for uid, rank, (number, place) in zip(uids, ranks, part.places, strict=True):
        try:
            record = readers[number].fetch(Locator(*place))
        except (RLPanelError, IndexError) as error:
            unread.samples += 1
            unread.reason = unread.reason or str(error)
            continue
        logged = {name: record.arrays[key] for name, key in part.arrays.items() if key in record.arrays}
        missing = -1 if rank is None else rank
        samples.append(tokens_of(record, missing, uid, part.constants, set(schema.names), logged))
        held += len(samples[-1][HEAD[0]])
        if held >= TABLE_TOKENS:
            yield _table(samples, schema)
            samples, held = [], 0
    yield _table(samples, schema)


def _table(samples: Sequence[Mapping[str, np.ndarray]], schema: Any) -> Any:
    """Return the columns of some samples as one table: column by column, for a sample has few tokens."""
    import pyarrow

    if not samples:
        return schema.empty_table()
    columns = [np.concatenate([sample[field.name] for sample in samples]) for field in schema]
    arrays = [_column(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _column(values: np.ndarray, kind: Any) -> Any:
    import pyarrow

    if values.dtype == object or values.dtype.kind in "iu":
        return pyarrow.array(values, kind)
    found = pyarrow.array(values.astype(float, copy=False), pyarrow.float64(), from_pandas=True)
    return found if kind == found.type else found.cast(kind)


def _ranges(step: np.ndarray, length: np.ndarray, size: int) -> Iterator[slice]:
    """Yield slices of sorted steps: whole steps of ``size`` bytes together, or parts of a larger step."""
    start, held = 0, 0
    edges = np.flatnonzero(np.diff(step, prepend=step[:1] - 1)).tolist() if len(step) else []
    for first, end in zip(edges, [*edges[1:], len(step)], strict=True):
        total = int(length[first:end].sum(dtype=np.int64))
        if held and held + total > size:
            yield slice(start, first)
            start, held = first, 0
        if total > size:
            sums = np.cumsum(length[first:end], dtype=np.int64)
            for part in np.split(np.arange(first, end), np.flatnonzero(np.diff(sums // size)) + 1):
                yield slice(int(part[0]), int(part[-1]) + 1)
            start, held = end, 0
        else:
            held += total
    if start < len(step):
        yield slice(start, len(step))


def _source(index: RunIndex, name: str) -> SourceFile:
    reader = index.reader(name)
    container: Any = reader.container
    return SourceFile(container, reader.path, reader.name, reader.adapter, reader.tail.line_bytes)


def _arguments(file: SourceFile) -> tuple[Container | None, str, str, Adapter, int]:
    return file.container, file.path, file.name, file.adapter, file.line_bytes


def part_frame(part: DatasetPart, kind: Kind) -> Any:
    """Return a part as a pandas data frame whose columns have Arrow's types, alike in all parts.

    Raises
    ------
    QueryError
        If the line of a sample cannot be read.
    """
    import pandas as pd
    import pyarrow

    if kind == "samples":
        return part.samples.to_pandas(types_mapper=pd.ArrowDtype)
    unread = UnreadSamples()
    tables = list(token_tables(part, unread))
    if unread.samples:
        raise QueryError(f"{unread.samples:,} samples of {part.name} cannot be read: {unread.reason}")
    return pyarrow.concat_tables(tables).to_pandas(types_mapper=pd.ArrowDtype)


def dask_frame(parts: Sequence[DatasetPart], kind: Kind) -> Any:
    """Return parts as a dask data frame, one partition each, which workers make when they need it.

    Raises
    ------
    QueryError
        If dask is not installed, or there is no such table or no sample.
    """
    if kind not in ("samples", "tokens"):
        raise QueryError(f"no table {kind!r}; there are: samples, tokens")
    if not parts:
        raise QueryError("the run has no samples that count yet")
    try:
        from dask.dataframe import from_map
    except ImportError as error:
        raise QueryError(f"a dask data frame needs dask: {install_command('dask')}") from error
    import pandas as pd

    schema = parts[0].samples.schema if kind == "samples" else tokens_schema(list(parts[0].arrays))
    meta = schema.empty_table().to_pandas(types_mapper=pd.ArrowDtype)
    return from_map(part_frame, parts, kind=kind, meta=meta, label=f"rlpanel-{kind}")
