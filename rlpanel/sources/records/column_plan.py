"""Parse plan for lines with the same keys: which key fills which column. Built once and reused.

Most lines have the same keys as the line before, with values of the same types. Such a line becomes one row
of a batch (`rlpanel.sources.records.column_batch`). A line that differs in any way is read as a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

from rlpanel import schema
from rlpanel.sources.records.chat_shapes import OPENINGS, any_begins_as_messages, begins_as_messages
from rlpanel.sources.records.field_values import STEP_LIMIT
from rlpanel.sources.records.fields import ENGINE_KEYS, RESERVED
from rlpanel.sources.records.json_parser import LISTS, NESTED, to_float_array
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.token_lists import holds_token_list, is_of_prompt


class Kind(Enum):
    """Ways in which a plan reads the values of a key.

    ``OWN`` kinds are for keys that the schema does not know.
    """

    STEP = auto()
    RANK = auto()
    TEXT = auto()
    NUMBER = auto()
    OWN_NUMBER = auto()
    LABEL = auto()
    OWN_LABEL = auto()
    #: An object whose values are numbers.
    PARTS = auto()
    #: A list of which only the length is stored.
    SIZE = auto()
    ARRAY = auto()
    #: Nothing is stored, whatever the value is.
    SKIPPED = auto()
    #: Nothing is stored, and the value must be a list, an object or null.
    NESTED = auto()
    #: The key gives texts or several columns: no plan is made of lines with it.
    UNPLANNED = auto()


NUMBERS = frozenset({Kind.NUMBER, Kind.OWN_NUMBER})
#: Value types that need no further check, by the kind of a stored column.
_TYPES: dict[Kind, frozenset[type]] = {
    Kind.STEP: frozenset({int}),
    Kind.RANK: frozenset({int}),
    Kind.TEXT: frozenset({str}),
    Kind.NUMBER: frozenset({float, int, bool, type(None)}),
    Kind.OWN_NUMBER: frozenset({float, int, bool}),
    Kind.LABEL: frozenset({str, int, float, bool, type(None)}),
    Kind.OWN_LABEL: frozenset({str}),
}
#: Kinds by what the schema says of the values; fields of other kinds are not planned.
_OF_FIELDS = {
    "text": Kind.SKIPPED,
    "array": Kind.ARRAY,
    "number": Kind.NUMBER,
    "label": Kind.LABEL,
    "texts": Kind.SKIPPED,
    "alternatives": Kind.NESTED,
}
#: Kind and name by key: those of the schema's fields, apart from the keys that are listed here.
_KINDS: dict[str, tuple[Kind, str]] = {
    **{
        key: (_OF_FIELDS.get(f.kind, Kind.UNPLANNED), f.name)
        for f in schema.FIELDS
        for key in (f.name, *f.aliases)
    },
    "step": (Kind.STEP, "step"),
    "rank": (Kind.RANK, "rank"),
    "prompt": (Kind.TEXT, "prompt"),
    "response": (Kind.TEXT, "response"),
    "rewards": (Kind.PARTS, "rewards"),
    "response_tokens": (Kind.SIZE, "response_tokens"),
    "response_token_ids": (Kind.SIZE, "response_tokens"),
    "prompt_messages": (Kind.UNPLANNED, "prompt_messages"),
    "trainer_version": (Kind.UNPLANNED, "trainer_version"),
    **{key: (Kind.UNPLANNED, key) for key in ENGINE_KEYS},
}

#: Kinds of fields that are lists: a number under such a key is a column of its own.
_OF_LISTS = frozenset({Kind.ARRAY, Kind.NESTED})
#: Sort order of the columns: the step and the rank are the first values of a row.
_COLUMN_ORDER = {Kind.STEP: 0, Kind.RANK: 1}
_MAX_RANK = 2**31
#: Larger integers are left to records: they may be too large for a float, or too long to be shown.
_MAX_INTEGER = 2**63
#: The byte of float64 that -100, the label of tokens that are not trained on, has, but 0 and 1 have not.
_BYTE_OF_IGNORED = b"\xc0"

Row = tuple[Any, ...]


@lru_cache(maxsize=256)
def _shared(plan: ColumnPlan) -> ColumnPlan:
    """Return the first of all equal plans: thousands of files of a run share what it has looked up."""
    return plan


@dataclass(frozen=True)
class ColumnPlan:
    """Parse plan for lines with the same set of keys.

    Attributes
    ----------
    columns : tuple of (str, Kind, str)
        Key, kind and name of each stored value: first the step and the rank if logged, then the others.
    parts : tuple of str
        Keys of ``rewards``; their values come after the columns in a row.
    sizes : tuple of str
        Keys of lists whose length is the number of tokens, the preferred key first.
    arrays : tuple of (str, str)
        Key and name of each token array, those of the schema first.
    skipped, nested : tuple of str
        Other keys. Values of ``nested`` keys must be lists, objects or null, which become no column.
    order : tuple of str
        Names of the number columns, in the order in which a record has them.
    """

    columns: tuple[tuple[str, Kind, str], ...]
    parts: tuple[str, ...]
    sizes: tuple[str, ...]
    arrays: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]
    nested: tuple[str, ...]
    order: tuple[str, ...]
    #: Types of rows that fit, and the positions of their integers that must be exact.
    _checked_types: dict[Row, tuple[int, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def from_line(
        cls, document: Mapping[str, Any], record: Record, names: Mapping[str, str]
    ) -> ColumnPlan | None:
        """Return the plan for lines with the keys of this one; None if they cannot be read by a plan.

        ``record`` is the same line read as a record. The plan is used only if it would give an equal one.
        ``names`` are those of `FlatFormat`.
        """
        kinds = [(key, *_kind(names.get(key, key), value)) for key, value in document.items()]
        parts = document.get("rewards", {})
        if not hasattr(parts, "items") or any(kind is Kind.UNPLANNED for _, kind, _ in kinds):
            return None
        kinds = [_as_array(*entry, names.get(entry[0], entry[0]), record) for entry in kinds]
        stored = [entry for entry in kinds if entry[1] in _TYPES]
        plan = cls(
            tuple(sorted(stored, key=lambda entry: _COLUMN_ORDER.get(entry[1], 2))),
            tuple(name for name, _ in parts.items()),
            tuple(sorted((key for key, kind, _ in kinds if kind is Kind.SIZE), reverse=True)),
            tuple(
                (key, name)
                for key, kind, name in sorted(kinds, key=lambda entry: entry[2] not in schema.ARRAYS)
                if kind is Kind.ARRAY
            ),
            tuple(key for key, kind, _ in kinds if kind is Kind.SKIPPED),
            tuple(key for key, kind, _ in kinds if kind is Kind.NESTED),
            tuple(record.numbers),
        )
        return _shared(plan) if plan.columns and plan._matches(record) else None

    @cached_property
    def lazy(self) -> bool:
        """True if the lines have lists or objects: then only the values needed become Python objects."""
        return bool(self.sizes or self.arrays or self.nested)

    @cached_property
    def place(self) -> dict[Kind, int]:
        """Position of the step and of the rank in a row, if the lines hold them."""
        return {kind: at for at, (_, kind, _) in enumerate(self.columns) if kind in _COLUMN_ORDER}

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names of the number columns in the order of a row."""
        own = tuple(name for _, kind, name in self.columns if kind in NUMBERS)
        return own + tuple(f"rewards/{part}" for part in self.parts)

    def reads_any(self, keys: Iterable[str]) -> bool:
        """Return True if lines of this plan have one of some keys."""
        return not self._keys.isdisjoint(keys)

    def parse_columns(self, documents: Sequence[dict[str, Any]]) -> list[list[Any]] | None:
        """Return the stored values of lines without lists, given the result of `json_parser.parse_lines`.

        There is one column for each value of a row as `parse_row` returns it.

        Lines of which one does not fit the plan give None or raise KeyError.
        """
        if set(map(len, documents)) != {self._key_count}:
            return None
        # Column by column: a tuple for each line would be one more object for the garbage collector.
        columns = [list(map(pick, documents)) for pick in self._pick]
        del columns[len(self.columns) :]  # the skipped keys were only to be found
        if self.parts:
            parts = list(map(itemgetter("rewards"), documents))
            if set(map(type, parts)) != {dict} or set(map(tuple, parts)) != {self.parts}:
                return None
            columns += map(list, zip(*map(dict.values, parts), strict=True))
        checked = zip(columns, self._types, self._limits, strict=True)
        if not all(_holds_only(types, column, limit) for column, types, limit in checked):
            return None
        if not all(first <= min(columns[at]) <= max(columns[at]) <= last for at, first, last in self._bounds):
            return None
        for at in self._texts:
            texts: Collection[str] = columns[at]
            if at in self._prompts:
                columns[at], texts = _share_equal(columns[at])
            if any_begins_as_messages(texts):
                return None
        return columns

    def parse_row(self, document: Any) -> Row | None:
        """Return the stored values of a line, given the result of `json_parser.parse_fast`.

        A line that does not fit the plan gives None or raises KeyError.
        """
        if len(document) != self._key_count:
            return None
        row = tuple([document[key] for key in self._column_keys])
        if self.parts:
            parts = document["rewards"]
            parts = parts.as_dict() if hasattr(parts, "as_dict") else parts
            if type(parts) is not dict or tuple(parts) != self.parts:
                return None
            row += tuple(parts.values())
        types = tuple(map(type, row))
        integers = self._checked_types.get(types)
        if integers is None:
            allowed = zip(types, self._types, strict=True)
            if not all(value_type in column_types for value_type, column_types in allowed):
                return None
            kinds = zip(types, self.columns, strict=False)
            own = (at for at, (kind, entry) in enumerate(kinds) if (kind, entry[1]) == (int, Kind.OWN_NUMBER))
            integers = self._checked_types[types] = tuple(own)
        for at in integers:
            if not -STEP_LIMIT < row[at] < STEP_LIMIT:
                return None
        for at, first, last in self._bounds:
            if not first <= row[at] <= last:
                return None
        for at in self._texts:
            if row[at][:1] in OPENINGS and begins_as_messages(row[at]):
                return None
        for skipped in self._skipped_keys:
            if skipped not in document:
                return None
        for key in self.nested:
            if type(document[key]) not in NESTED:
                return None
        return row

    def parse_lists(self, document: Any) -> tuple[list[int], list[Any]] | None:
        """Return the lengths of a line's lists, and its token arrays.

        A line that does not fit gives None or raises KeyError, TypeError, RuntimeError or ValueError.
        """
        sizes, arrays = [], []
        own, described = len(self.sizes), len(self._list_keys) - self._own_arrays
        for key in self._list_keys:
            value = document[key]
            if type(value) not in LISTS:
                return None
            size = len(value)
            sizes.append(size)
            if len(sizes) > described:
                if size != sizes[self._tokens_at or 0]:
                    return None
                arrays.append(to_float_array(value))
            elif len(sizes) > own:
                array = value.as_buffer(of_type="d")
                if array.size != 8 * size:  # as_buffer flattened a nested list
                    return None
                if size != sizes[0] and size if own else not size:  # a record has a remark, or no tokens
                    return None
                arrays.append(array)
            elif size and type(value[0]) in LISTS:  # tokens by turn
                return None
        if self._tokens_at is not None and (tokens := sizes[self._tokens_at]):
            for key in self._nested_keys:
                if holds_token_list(document[key], tokens):
                    return None
        if self._mask is not None and _BYTE_OF_IGNORED in bytes(arrays[self._mask]):
            return None
        return sizes, arrays

    @cached_property
    def _mask(self) -> int | None:
        """Position of the loss mask among the arrays."""
        names = [name for _, name in self.arrays]
        return names.index("loss_mask") if "loss_mask" in names else None

    @cached_property
    def _keys(self) -> frozenset[str]:
        named = (*self.columns, *self.arrays)
        parts = ("rewards",) if self.parts else ()
        return frozenset((*(entry[0] for entry in named), *parts, *self.sizes, *self.skipped, *self.nested))

    @cached_property
    def _key_count(self) -> int:
        others = (self.sizes, self.arrays, self.skipped, self.nested)
        return len(self.columns) + bool(self.parts) + sum(map(len, others))

    @cached_property
    def _column_keys(self) -> tuple[str | bytes, ...]:
        keys = (key for key, _, _ in self.columns)
        return (
            tuple(key.encode() for key in keys) if self.lazy else tuple(keys)
        )  # otherwise simdjson encodes them per line

    @cached_property
    def _skipped_keys(self) -> tuple[str | bytes, ...]:
        return tuple(key.encode() for key in self.skipped) if self.lazy else self.skipped

    @cached_property
    def _own_arrays(self) -> int:
        """Number of token arrays besides the fields of the schema."""
        return sum(name not in schema.ARRAYS for _, name in self.arrays)

    @cached_property
    def _tokens_at(self) -> int | None:
        """Position of the number of tokens among the lengths of the lists; None without such a list."""
        names = [name for _, name in self.arrays]
        return 0 if self.sizes else names.index("logprobs") if "logprobs" in names else None

    @cached_property
    def _nested_keys(self) -> tuple[bytes, ...]:
        return tuple(key.encode() for key in self.nested if not is_of_prompt(key))

    @cached_property
    def _list_keys(self) -> tuple[bytes, ...]:
        return tuple(key.encode() for key in (*self.sizes, *(key for key, _ in self.arrays)))

    @cached_property
    def _pick(self) -> list[Callable[[Any], Any]]:
        return list(map(itemgetter, (*(key for key, _, _ in self.columns), *self.skipped)))

    @cached_property
    def _texts(self) -> list[int]:
        """Positions of texts in a row, which may be the text of messages: such lines become records."""
        return [at for at, (_, kind, _) in enumerate(self.columns) if kind is Kind.TEXT]

    @cached_property
    def _prompts(self) -> list[int]:
        """Positions of prompts in a row."""
        return [
            at for at, (_, kind, name) in enumerate(self.columns) if (kind, name) == (Kind.TEXT, "prompt")
        ]

    @cached_property
    def _bounds(self) -> list[tuple[int, int, int]]:
        """Positions of the step and of the rank in a row, each with its least and its greatest value."""
        return [
            (at, *((0, _MAX_RANK - 1) if kind is Kind.RANK else (1 - STEP_LIMIT, STEP_LIMIT - 1)))
            for kind, at in self.place.items()
        ]

    @cached_property
    def _types(self) -> list[frozenset[type]]:
        return [_TYPES[kind] for _, kind, _ in self.columns] + [_TYPES[Kind.NUMBER]] * len(self.parts)

    @cached_property
    def _limits(self) -> list[int]:
        """Limits of integers; those of keys that the schema does not know may be ids and must be exact."""
        own = [STEP_LIMIT if kind is Kind.OWN_NUMBER else _MAX_INTEGER for _, kind, _ in self.columns]
        return own + [_MAX_INTEGER] * len(self.parts)

    def _matches(self, record: Record) -> bool:
        """Return True if the plan gives an equal record; it does not if two keys fill the same column."""
        numbers = [*self.numbers, *(f"{name}_chars" for _, kind, name in self.columns if kind is Kind.TEXT)]
        has_tokens = bool(self.sizes or len(record.arrays.get("logprobs", ())))
        numbers += ["response_tokens"] * has_tokens
        masked = has_tokens and "loss_mask" in record.arrays
        numbers += ["trajectory_tokens", "context_tokens"] * masked
        labels = [name for _, kind, name in self.columns if kind in (Kind.LABEL, Kind.OWN_LABEL)]
        return (
            not record.notes
            and sorted(numbers) == sorted(self.order)
            and sorted(name for _, name in self.arrays) == sorted(record.arrays)
            and len(set(labels)) == len(labels)
            and set(record.labels) <= {*labels, "split"}
        )


def _share_equal(texts: Sequence[str]) -> tuple[list[str], Collection[str]]:
    """Replace equal texts by one object, since the samples of a group share a prompt; return these as well.

    This frees the memory of the others, and the same object is found in a dict without a comparison.
    """
    first: dict[str, str] = {}
    return list(map(first.setdefault, texts, texts)), first


def _holds_only(types: frozenset[type], column: Sequence[Any], limit: int) -> bool:
    """Return True if all values have one of these types, and their integers are below a limit."""
    found = set(map(type, column))
    if int in found:
        integers = column if len(found) == 1 else [value for value in column if type(value) is int]
        if not -limit < min(integers) <= max(integers) < limit:
            return False
    return found <= types


def _as_array(key: str, kind: Kind, name: str, known: str, record: Record) -> tuple[str, Kind, str]:
    """Return a key with its kind and name: an array if the record has one, besides fields, of its name."""
    is_array = kind is Kind.NESTED and known in record.arrays and known not in schema.ARRAYS
    return (key, Kind.ARRAY, known) if is_array else (key, kind, name)


def _kind(key: str, value: Any) -> tuple[Kind, str]:
    """Return the kind and name of a key's values."""
    is_container = hasattr(value, "__len__") and not isinstance(value, str)
    if key in ("advantage", "advantages"):
        return (Kind.ARRAY, "advantages") if is_container else (Kind.NUMBER, "advantage")
    if key in _KINDS and not (_KINDS[key][0] in _OF_LISTS and isinstance(value, (int, float))):
        is_text = _KINDS[key][0] is Kind.TEXT and isinstance(value, str)
        return (Kind.UNPLANNED, key) if is_text and begins_as_messages(value) else _KINDS[key]
    key = schema.CANONICAL.get(key, key)
    name = f"logged_{key}" if key in RESERVED else key
    if len(name) > schema.LABEL_MAX or "\0" in name:
        return Kind.UNPLANNED, name
    if type(value) in _TYPES[Kind.OWN_NUMBER]:
        return Kind.OWN_NUMBER, name
    return (Kind.OWN_LABEL if isinstance(value, str) else Kind.NESTED), name
