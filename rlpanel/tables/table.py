"""A table of plain values, and the declaration of its columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

#: ``texts`` and ``numbers`` are lists, ``object`` holds values by name, and ``objects`` is a list of these.
ColumnType = Literal["integer", "number", "text", "boolean", "texts", "numbers", "object", "objects"]

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
    """

    name: str
    type: ColumnType
    description: str
    unit: str = ""


#: Facts that most tables state.
RUN = TableColumn("run", "text", "Name of the run.")
SPLIT = TableColumn("split", "text", "The split whose samples count.")
REMARKS = TableColumn(
    "remarks",
    "objects",
    "What the numbers depend on and the files do not tell: kind (evaluation, attempts or split), sentence, "
    "and the steps that it is about.",
)
BY = TableColumn(
    "by",
    "text",
    "episodes: the reward of each episode counts once, by its last row; rows: in each row; null if no "
    "episode has several rows.",
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
        Columns that every row has, in order.
    others : str
        What further columns there are, which depend on the run; empty if there are none.
    optional : tuple of TableColumn
        Columns that rows have if they are asked for.
    about : tuple of TableColumn
        Facts about the whole table.
    """

    name: str
    description: str
    columns: tuple[TableColumn, ...]
    others: str = ""
    optional: tuple[TableColumn, ...] = ()
    about: tuple[TableColumn, ...] = ()

    def table(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        others: Iterable[TableColumn] = (),
        total: int | None = None,
        offset: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> Table:
        """Return a table of this kind.

        Parameters
        ----------
        rows : sequence of mappings
            A value by column name for each row; a missing one is None.
        others : iterable of TableColumn
            Columns besides the declared ones.
        total : int, optional
            Number of rows that exist; by default those that are given.
        offset : int
            Number of rows before the first one.
        about : mapping, optional
            Facts about the whole table.
        """
        columns = (*self.columns, *others)
        plain_rows = [{column.name: plain(row.get(column.name)) for column in columns} for row in rows]
        facts = about or {}
        return Table(
            self,
            columns,
            plain_rows,
            len(plain_rows) if total is None else total,
            offset,
            {fact.name: plain(facts.get(fact.name)) for fact in self.about},
        )


@dataclass(frozen=True)
class Table:
    """Rows of plain values, which JSON can hold: no NaN, and no types of numpy or pandas.

    Attributes
    ----------
    spec : TableSpec
    columns : tuple of TableColumn
        The declared columns, then those that depend on the run.
    rows : list of dict
        Each row has a value for every column.
    total : int
        Number of rows that exist; more than there are here if the table was limited.
    offset : int
        Number of rows before the first one.
    about : dict
        Facts about the whole table, as declared in the spec.
    """

    spec: TableSpec
    columns: tuple[TableColumn, ...]
    rows: list[dict[str, Any]]
    total: int
    offset: int = 0
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.spec.name

    @property
    def more(self) -> int:
        """Number of rows after the last one."""
        return self.total - self.offset - len(self.rows)

    def document(self) -> dict[str, Any]:
        """Return the table as one JSON object; `rlpanel.tables.json_schema` describes it."""
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


def plain(value: Any) -> Any:
    """Convert a value to one that JSON can hold; NaN, infinities and pandas' missing value become None."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def page(rows: _Rows, offset: int, limit: int | None) -> _Rows:
    """Return at most ``limit`` items from ``offset`` on; all of them without a limit."""
    return rows[offset : None if limit is None else offset + limit]  # type: ignore[return-value]
