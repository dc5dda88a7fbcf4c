"""What becomes of the keys of a log's lines, worked out once for all lines that have the same.

Most lines have the keys of the line before, and values of the same kinds. Such a line is one row of a table
(`rlpanel.sources.records.column_batch`); one that is odd in any way does not fit, and is read as a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from rlpanel import schema
from rlpanel.sources.records.fields import RESERVED, STEP_LIMIT
from rlpanel.sources.records.json_parser import LISTS, NESTED
from rlpanel.sources.records.record_types import Record

_TEXTS = ("prompt", "response")
#: Values that need no second look, by what becomes of them. ``own`` are those of keys without a meaning.
_TYPES: dict[str, frozenset[type]] = {
    "step": frozenset({int}),
    "rank": frozenset({int}),
    "text": frozenset({str}),
    "number": frozenset({float, int, bool, type(None)}),
    "own number": frozenset({float, int, bool}),
    "label": frozenset({str, int, float, bool, type(None)}),
    "own label": frozenset({str}),
}
_KINDS: dict[str, tuple[str, str]] = {
    key: (f.kind, f.name) for f in schema.FIELDS for key in (f.name, *f.aliases)
}
_KINDS |= {"step": ("step", "step"), "rank": ("rank", "rank"), "rewards": ("parts", "rewards")}
_KINDS |= dict.fromkeys(("response_tokens", "response_token_ids"), ("size", "response_tokens"))
_KINDS |= {
    key: ("skipped", name) for key, (kind, name) in _KINDS.items() if kind == "text" and name not in _TEXTS
}
_KINDS["messages"] = ("", "")  # text only where there is no prompt

#: A step and a rank come first in a row.
_FIRST = {"step": 0, "rank": 1}
_MOST_RANK = 2**31

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ColumnPlan:
    """How lines with certain keys are read.

    Attributes
    ----------
    columns : tuple of (str, str, str)
        Key, kind and name of each value that is kept: the step, the rank where there is one, the others.
    parts : tuple of str
        The keys of ``rewards``, whose values come next in a row.
    sizes : tuple of str
        Keys of lists whose length tells how many tokens there are, the best first.
    arrays : tuple of (str, str)
        Key and name of token arrays.
    skipped, nested : tuple of str
        Further keys; of ``nested`` no value may become a column.
    order : tuple of str
        Number columns in the order in which a record has them.
    """

    columns: tuple[tuple[str, str, str], ...]
    parts: tuple[str, ...]
    sizes: tuple[str, ...]
    arrays: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]
    nested: tuple[str, ...]
    order: tuple[str, ...]
    _known: set[Row] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any], record: Record) -> ColumnPlan | None:
        """The plan of lines like this one, whose record is given; None where there is none."""
        found = [(key, *_kind(key, value)) for key, value in document.items()]
        parts = document.get("rewards", {})
        if not hasattr(parts, "items") or any(not kind for _, kind, _ in found):
            return None
        plan = cls(
            tuple(sorted((one for one in found if one[1] in _TYPES), key=lambda one: _FIRST.get(one[1], 2))),
            tuple(name for name, _ in parts.items()),
            tuple(sorted((key for key, kind, _ in found if kind == "size"), reverse=True)),
            tuple((key, name) for key, kind, name in found if kind == "array"),
            tuple(key for key, kind, _ in found if kind == "skipped"),
            tuple(key for key, kind, _ in found if kind == "nested"),
            tuple(record.numbers),
        )
        return plan if plan._gives(record) else None

    @cached_property
    def lazy(self) -> bool:
        """Whether a line is better not made into Python's objects whole."""
        return bool(self.sizes or self.arrays or self.nested)

    @cached_property
    def has_rank(self) -> bool:
        """Whether the lines tell their rank."""
        return self.columns[1][1] == "rank"

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Number columns in the order of a row."""
        own = tuple(name for _, kind, name in self.columns if kind.endswith("number"))
        return own + tuple(f"rewards/{part}" for part in self.parts)

    def row(self, document: Any) -> Row | None:
        """The values that are kept of a line's document, as `document` gives it.

        None or KeyError where it does not fit.
        """
        if len(document) != self._size:
            return None
        row = tuple([document[key] for key in self._raw]) if self.lazy else self._pick(document)
        if self.parts:
            parts = document["rewards"]
            parts = parts.as_dict() if hasattr(parts, "as_dict") else parts
            if type(parts) is not dict or tuple(parts) != self.parts:
                return None
            row += tuple(parts.values())
        types = tuple(map(type, row))
        if types not in self._known:
            if not all(of in known for of, known in zip(types, self._types, strict=True)):
                return None
            self._known.add(types)
        if not -STEP_LIMIT < row[0] < STEP_LIMIT or (self.has_rank and not 0 <= row[1] < _MOST_RANK):
            return None
        for key in self._others:
            if key not in document:
                return None
        for key in self.nested:
            if type(document[key]) not in NESTED:
                return None
        return row

    def lists(self, document: Any) -> tuple[list[int], list[Any]] | None:
        """How long the lists of a line are, and its token arrays.

        None, KeyError, TypeError, RuntimeError or ValueError where it does not fit.
        """
        sizes, arrays = [], []
        for key in self._lists:
            value = document[key]
            if type(value) not in LISTS:
                return None
            sizes.append(len(value))
            if len(sizes) > len(self.sizes):
                array = value.as_buffer(of_type="d")
                if array.size != 8 * sizes[-1]:  # it is nested
                    return None
                arrays.append(array)
        return sizes, arrays

    @cached_property
    def _size(self) -> int:
        others = (self.sizes, self.arrays, self.skipped, self.nested)
        return len(self.columns) + bool(self.parts) + sum(map(len, others))

    @cached_property
    def _raw(self) -> tuple[bytes, ...]:
        return tuple(key.encode() for key, _, _ in self.columns)  # simdjson would encode them for each line

    @cached_property
    def _others(self) -> tuple[str | bytes, ...]:
        return tuple(key.encode() for key in self.skipped) if self.lazy else self.skipped

    @cached_property
    def _lists(self) -> tuple[bytes, ...]:
        return tuple(key.encode() for key in (*self.sizes, *(key for key, _ in self.arrays)))

    @cached_property
    def _pick(self) -> Callable[[Any], Row]:
        return itemgetter(*(key for key, _, _ in self.columns))

    @cached_property
    def _types(self) -> list[frozenset[type]]:
        return [_TYPES[kind] for _, kind, _ in self.columns] + [_TYPES["number"]] * len(self.parts)

    def _gives(self, record: Record) -> bool:
        """Whether the record is what the plan gives; not where two keys stand for one thing."""
        numbers = [*self.numbers, *(f"{name}_chars" for _, kind, name in self.columns if kind == "text")]
        numbers += ["response_tokens"] * bool(self.sizes or "logprobs" in record.arrays)
        labels = [name for _, kind, name in self.columns if kind.endswith("label")]
        return (
            not record.notes
            and sorted(numbers) == sorted(self.order)
            and sorted(name for _, name in self.arrays) == sorted(record.arrays)
            and len(set(labels)) == len(labels)
            and set(record.labels) <= {*labels, "split"}
        )


def _kind(key: str, value: Any) -> tuple[str, str]:
    """What becomes of a key's values, and under which name; an empty kind has no plan."""
    several = hasattr(value, "__len__") and not isinstance(value, str)
    if key in ("advantage", "advantages"):
        return ("array", "advantages") if several else ("number", "advantage")
    if key in _KINDS:
        return _KINDS[key]
    name = f"logged_{key}" if key in RESERVED else key
    if len(name) > schema.LABEL_MAX or "\0" in name:
        return "", ""
    if type(value) in _TYPES["own number"]:
        return "own number", name
    return ("own label" if isinstance(value, str) else "nested"), name
