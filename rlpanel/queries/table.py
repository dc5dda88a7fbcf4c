"""A table of plain values, and the declaration of its columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: ``texts`` and ``numbers`` are lists, ``object`` holds values by name, and ``objects`` is a list of these.
ColumnType = Literal["integer", "number", "text", "boolean", "texts", "numbers", "object", "objects"]

#: Types of columns whose values are lists or structures.
NESTED = ("texts", "numbers", "object", "objects")

#: A sequence or an array.
_Rows = TypeVar("_Rows", bound="Sequence[Any] | np.ndarray")


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes
    ----------
    name : str
    type : str
        See `ColumnType`. Every value may also be None, which means that it was not logged or does not exist.
    description : str
        One sentence.
    unit : str
        Such as ``nats`` or ``seconds``; empty if it has none.
    most : int, optional
        Most items of a list that a tool returns, since a long one would fill its answer.
    brief : callable, optional
        Returns whether a short answer of a tool has a key of an object, given the key, the object and the
        row; the others follow from what it has.
    full : bool
        A fact or column that a tool returns only in a full answer, since it is long, or repeats another one.
    """

    name: str
    type: ColumnType
    description: str
    unit: str = ""
    most: int | None = None
    brief: Callable[[str, Mapping[str, Any], Mapping[str, Any]], bool] | None = None
    full: bool = False


#: Facts that most tables state.
RUN = TableColumn("run", "text", "Name of the run.")
SPLIT = TableColumn("split", "text", "The split whose samples count.")
REMARKS = TableColumn(
    "remarks",
    "objects",
    "What the numbers depend on and the files do not tell: kind (evaluation, attempts, groups, split or "
    "epochs), sentence, and the steps that it is about.",
)
LEFT_OUT = TableColumn(
    "left_out",
    "object",
    "Numbers above zero of what does not count: older_attempts, duplicates, discarded, bad_lines, "
    "empty_lines (padding) and unread_files, with a sentence; empty if everything counts.",
)
BY = TableColumn(
    "by",
    "text",
    "episodes: the reward of each episode counts once, by its last row; rows: in each row; null if no "
    "episode has several rows.",
)
STEP = TableColumn("step", "integer", "Policy update.")
PROMPT = TableColumn("prompt", "text", "The question of the prompt; null unless texts are read.")
LOGGED = TableColumn("logged", "text", "The token as it was logged.", full=True)
#: Columns that say which sample it is.
PLACE = (
    TableColumn("uid", "text", "The sample's identifier: file and byte offset. It stays valid."),
    STEP,
    TableColumn("rank", "integer", "Process that wrote the sample; -1 if it is not known."),
)
LINE = TableColumn("line", "integer", "Line of the sample in its file, from 1; 0 if it is not known yet.")
TAG = (
    TableColumn("tag", "text", "Tag by a viewer."),
    TableColumn("note", "text", "Note by a viewer."),
)

if TYPE_CHECKING:
    import numpy as np

STEPS = TableColumn("steps", "text", "The first and the last of several steps, such as 10..20.")
#: Facts about tables of samples.
ABOUT_SAMPLES = (
    RUN,
    SPLIT,
    TableColumn("step", "integer", "The only step; null for several or all steps."),
    STEPS,
)


@dataclass(frozen=True)
class TableSpec:
    """The declaration of a table.

    Attributes
    ----------
    name : str
    description : str
        One sentence.
    columns : tuple of TableColumn
        Columns that every row of a document has, in order.
    others : str
        What further columns there are, which depend on the run; empty if there are none.
    optional : tuple of TableColumn
        Columns that rows have if they are asked for.
    about : tuple of TableColumn
        Facts about the whole table.
    frame : tuple of str
        Columns of a data frame, in order, if they differ from ``columns``; ``token=logged`` renames one.
    relation : tuple of str
        Columns of the table of SQL, if they differ from those of the data frame.
    """

    name: str
    description: str
    columns: tuple[TableColumn, ...]
    others: str = ""
    optional: tuple[TableColumn, ...] = ()
    about: tuple[TableColumn, ...] = ()
    frame: tuple[str, ...] = ()
    relation: tuple[str, ...] = ()

    def table(
        self,
        rows: Sequence[Mapping[str, Any]] | Mapping[str, Any],
        *,
        others: Iterable[TableColumn] = (),
        total: int | None = None,
        offset: int = 0,
        about: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Table:
        """Return a table of this kind.

        Parameters
        ----------
        rows : mapping or sequence of mappings
            The values of each column by its name, or the values of each row; a missing one is None. A column
            may also be a function, which is called when its values are needed.
        others : iterable of TableColumn
            Columns besides the declared ones.
        total : int, optional
            Number of rows that exist; by default those that are given.
        offset : int
            Number of rows before the first one.
        about : mapping, optional
            Facts about the whole table; a fact may also be a function.
        attrs : mapping, optional
            What ``attrs`` of a data frame holds.
        """
        columns = (*self.columns, *others)
        if not isinstance(rows, Mapping):
            keys = rows[0] if rows else (*self.frame, *self.relation)
            names = dict.fromkeys([*(column.name for column in columns), *keys])
            rows = {name: [row.get(name) for row in rows] for name in names}
        size = next((len(values) for values in rows.values() if not callable(values)), 0)
        count = size if total is None else total
        return Table(self, columns, dict(rows), size, count, offset, about or {}, attrs or {})


@dataclass(frozen=True)
class Table:
    """The answer to a question: columns of values, which become a document or a data frame.

    Attributes
    ----------
    spec : TableSpec
    columns : tuple of TableColumn
        The declared columns, then those that depend on the run.
    values : dict of str to sequence or callable
        The values of each column, or a function that returns them.
    size : int
        Number of rows.
    total : int
        Number of rows that exist; more than there are here if the table was limited.
    offset : int
        Number of rows before the first one.
    facts, attrs : mapping
        See `TableSpec.table`.
    """

    spec: TableSpec
    columns: tuple[TableColumn, ...]
    values: dict[str, Any]
    size: int
    total: int
    offset: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.spec.name

    @property
    def more(self) -> int:
        """Number of rows after the last one."""
        return self.total - self.offset - self.size

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of plain values, which JSON can hold; each has a value for every column."""
        names = [column.name for column in self.columns]
        missing = [None] * self.size
        cells = [self._column(name) if name in self.values else missing for name in names]
        return [
            dict(zip(names, map(plain, row), strict=True))
            for row in islice(zip(*cells, strict=True), self.size)
        ]

    @cached_property
    def about(self) -> dict[str, Any]:
        """Facts about the whole table as plain values, as declared in the spec."""
        found = {fact.name: self.facts.get(fact.name) for fact in self.spec.about}
        return {name: plain(fact() if callable(fact) else fact) for name, fact in found.items()}

    def __repr__(self) -> str:
        return "\n".join([*self._facts_said(), repr(self.frame()) if self.size else "no rows"])

    def _repr_html_(self) -> str:
        """Return the table for a cell of a notebook; texts of the log are escaped."""
        facts = "".join(f"<div>{escape(each)}</div>" for each in self._facts_said())
        return f"{facts}{self.frame().to_html(max_rows=60)}" if self.size else f"{facts}<div>no rows</div>"

    def _facts_said(self) -> list[str]:
        """Return the facts that are one text or number, a line each."""
        kinds = (str, int, float)
        return [
            f"{name}: {each}" for name, each in self.about.items() if isinstance(each, kinds) and each != ""
        ]

    def document(self) -> dict[str, Any]:
        """Return the table as one JSON object; `rlpanel.queries.catalogue` describes it."""
        columns = [
            {"name": c.name, "type": c.type, "unit": c.unit, "description": c.description}
            for c in self.columns
        ]
        return {
            "table": self.name,
            "about": self.about,
            "total": self.total,
            "offset": self.offset,
            "columns": columns,
            "rows": self.rows,
        }

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        columns = tuple(column for column in self.columns if column.name not in names)
        values = {name: values for name, values in self.values.items() if name not in names}
        return replace(self, columns=columns, values=values)

    def frame(self, *, typed: bool = False) -> pd.DataFrame:
        """Return the table as a data frame: its columns are those of ``spec.frame`` that were logged.

        Its ``attrs["units"]`` has the unit of each column that has one.

        Parameters
        ----------
        typed : bool
            Give columns of texts, whole numbers and truth values their declared types, whatever the rows are.
        """
        import pandas as pd

        columns = {
            name: values if len(values) else pd.Series(values, dtype=getattr(values, "dtype", object))
            for name, values in self._chosen(self.spec.frame).items()
        }
        found = pd.DataFrame(columns)
        units = {c.name: c.unit for c in self.columns if c.unit and c.name in found}
        found.attrs = {**self.attrs, "units": units}
        kinds = {"text": str, "integer": "Int64", "boolean": bool}
        types = {c.name: kinds[c.type] for c in self.columns if c.name in found and c.type in kinds}
        return found.astype(types) if typed else found

    def relation(self) -> dict[str, Any]:
        """Return the columns of the table of SQL by name; None for one whose inputs were not logged."""
        names = self.spec.relation or self.spec.frame
        declared = dict.fromkeys(name.partition("=")[0] for name in names)
        return declared | self._chosen(names)

    def arrow(self) -> Any:
        """Return the table as a ``pyarrow.Table``; objects by name are JSON. Needs the extra ``parquet``."""
        import pyarrow as pa

        kinds = {
            "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(),
            "texts": pa.list_(pa.string()), "numbers": pa.list_(pa.float64()),
        }  # fmt: skip
        columns = {}
        for column in self.columns:
            cells = [row[column.name] for row in self.rows]
            if column.type in ("object", "objects"):
                cells = [None if cell is None else json.dumps(cell) for cell in cells]
            columns[column.name] = pa.array(cells, kinds.get(column.type, pa.string()))
        return pa.table(columns)

    def _chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the columns of a data frame; those that depend on the run follow the declared ones."""
        declared = [column.name for column in self.spec.columns]
        others = [column.name for column in self.columns if column.name not in declared]
        pairs = [(shown, name or shown) for shown, _, name in (n.partition("=") for n in names or declared)]
        pairs += [(name, name) for name in others]
        return {shown: self._column(name) for shown, name in pairs if name in self.values}

    def _column(self, name: str) -> Any:
        values = self.values[name]
        if callable(values):
            values = self.values[name] = values()
        return values


def plain(value: Any) -> Any:
    """Convert a value to one that JSON can hold; NaN, infinities and pandas' missing value become None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # numpy has texts of its own
    if isinstance(value, float):  # also numpy's own float64
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    if hasattr(value, "tolist"):  # numpy, which this module does not import
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def page(rows: _Rows, offset: int, limit: int | None) -> _Rows:
    """Return at most ``limit`` items from ``offset`` on; all of them without a limit."""
    return rows[offset : None if limit is None else offset + limit]  # type: ignore[return-value]
