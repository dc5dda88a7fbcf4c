"""Filter expressions: type-checked when compiled, then evaluated as numpy masks over columns.

No Python code of the user is ever executed. Conditions on texts stay undecided until the texts are read, so
each result is a pair of masks: rows that certainly pass, and rows that may pass.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from rlpanel.errors import FilterError
from rlpanel.store.query import filter_syntax
from rlpanel.store.query.text_predicate import TextPredicate, require_short, written_out
from rlpanel.texts.final_answers import DIFFERENT, EQUAL, UNCLEAR

#: Kinds of columns: numbers, short texts kept in memory, and long texts that are read from the files.
NUMBER, LABEL, TEXT = "number", "label", "text"

_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
#: Values of the column ``match``, which need no quotes.
_WORDS = frozenset({EQUAL, DIFFERENT, UNCLEAR})
_PERCENTILE = re.compile(r"p([1-9]\d?)")


#: Codes, shape (N,), -1 where nothing was logged, and the texts that the codes index.
Labels: TypeAlias = tuple[np.ndarray, Sequence[str]]


class FilterTable(Protocol):
    """Protocol of a table with columns of N rows."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def number(self, name: str) -> np.ndarray:
        """Return a number column, shape (N,); NaN where it was not logged."""

    def codes(self, name: str) -> Labels:
        """Return a label column as codes and texts."""


class Truth(NamedTuple):
    """Masks of rows that certainly pass and that may pass, shape (N,); the same array if all are decided."""

    sure: np.ndarray
    maybe: np.ndarray


@dataclass
class FilterInput:
    """Input of a filter's evaluation: the table, and text tests and percentiles known so far.

    Attributes
    ----------
    table : FilterTable
    texts : dict
        Results of text tests, shape (N,); a test that is absent is undecided.
    percentiles : dict of str to float
        Cache of percentiles by name ("kl_k3_mean p99"); missing ones are computed and added.
    """

    table: FilterTable
    texts: Mapping[TextPredicate, np.ndarray] = field(default_factory=dict)
    percentiles: dict[str, float] = field(default_factory=dict)


_Bool = Callable[[FilterInput], Truth]
_Array = Callable[[FilterInput], np.ndarray]


class Filter:
    """A compiled filter expression over columns of known kinds.

    Parameters
    ----------
    text : str
        Expression, see `rlpanel.store.query.filter_syntax`.
    kinds : mapping of str to str
        Column name to `NUMBER`, `LABEL` or `TEXT`.

    Attributes
    ----------
    columns : list of str
        Number and label columns that it uses.
    texts : list of TextPredicate
        Conditions on texts that must be read from the files.
    patient : bool
        True if it may take long whatever its size, because it has a regular expression.

    Raises
    ------
    FilterError
        If the expression is not valid for these columns; the error has the position and perhaps a suggestion.
    """

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        self.columns: list[str] = []
        self.texts: list[TextPredicate] = []
        self._written_out = 0
        self._kinds = kinds
        self._truth = self._bool(filter_syntax.parse_filter(text))
        self.patient = self._written_out > 0

    def evaluate(self, inputs: FilterInput) -> Truth:
        """Evaluate the filter: which rows pass."""
        with np.errstate(all="ignore"):
            return self._truth(inputs)

    # -- conditions ----------------------------------------------------------------------------------

    def _bool(self, node: filter_syntax.Node) -> _Bool:
        match node:
            case filter_syntax.Logic("not", (part,)):
                inner = self._bool(part)
                return lambda inputs: _not(inner(inputs))
            case filter_syntax.Logic(word, parts):
                sign = operator.and_ if word == "and" else operator.or_
                inners = [self._bool(part) for part in parts]
                return lambda inputs: _join(sign, [inner(inputs) for inner in inners])
            case filter_syntax.Comparison(signs, operands):
                pairs = zip(operands, signs, operands[1:], strict=False)
                tests = [self._compare(left, sign, right) for left, sign, right in pairs]
                return lambda inputs: _join(operator.and_, [test(inputs) for test in tests])
            case filter_syntax.Membership():
                return self._membership(node)
            case filter_syntax.TextMatch():
                return self._text_test(node)
            case filter_syntax.Missing():
                return self._missing(node.column)
        subject = node.name if isinstance(node, filter_syntax.Name) else "this"
        raise FilterError(f"{subject} is a value: compare it with something, as in {subject} > 0", node.at)

    def _compare(self, left: filter_syntax.Node, sign: str, right: filter_syntax.Node) -> _Bool:
        if self._is_text(left) or self._is_text(right):
            return self._compare_texts(left, sign, right)
        if isinstance(left, filter_syntax.Name) and self._percentile(left):
            left, sign, right = right, _mirrored(sign), left
        apply, value = _COMPARE[sign], self._number(left)
        if isinstance(right, filter_syntax.Name) and (q := self._percentile(right)):
            name = f"{left.name if isinstance(left, filter_syntax.Name) else f'at {left.at + 1}'} p{q}"
            return lambda inputs: _decided(_compare_to_percentile(apply, value(inputs), name, q, inputs))
        right_value = self._number(right)
        return lambda inputs: _decided(
            np.broadcast_to(apply(value(inputs), right_value(inputs)), len(inputs.table))
        )

    def _compare_texts(self, left: filter_syntax.Node, sign: str, right: filter_syntax.Node) -> _Bool:
        if isinstance(left, (filter_syntax.Text, filter_syntax.Number)):
            left, sign, right = right, _mirrored(sign), left
        self._expect_text(left)
        if sign not in ("==", "!="):
            raise FilterError(f"texts are compared with == and !=, not {sign}", left.at)
        equal = self._one_of(left, [right])
        return equal if sign == "==" else lambda inputs: _not(equal(inputs))

    def _membership(self, node: filter_syntax.Membership) -> _Bool:
        if self._is_text(node.value):
            return self._one_of(node.value, node.items)
        value = self._number(node.value)
        for item in node.items:
            if isinstance(item, filter_syntax.Text):
                raise FilterError("this is a text, but the column holds numbers", item.at)
        numbers = [item.value for item in node.items if isinstance(item, filter_syntax.Number)]
        return lambda inputs: _decided(np.broadcast_to(np.isin(value(inputs), numbers), len(inputs.table)))

    def _one_of(self, column: filter_syntax.Node, items: Sequence[filter_syntax.Node]) -> _Bool:
        """Compile a test whether a text column equals one of the items; a number is taken as written."""
        texts = []
        for item in items:
            if isinstance(item, filter_syntax.Name):
                if item.name not in _WORDS or item.name in self._kinds:
                    raise self._unquoted(item)
                item = filter_syntax.Text(item.name, item.at)
            if not isinstance(item, (filter_syntax.Text, filter_syntax.Number)):
                raise FilterError("a text in quotes is expected here", item.at)
            texts.append(item.value if isinstance(item, filter_syntax.Text) else item.text)
        if not texts:
            return lambda inputs: _decided(np.zeros(len(inputs.table), bool))
        tests = [self._test(column, "==", text) for text in texts]
        return lambda inputs: _join(operator.or_, [test(inputs) for test in tests])

    def _text_test(self, node: filter_syntax.TextMatch) -> _Bool:
        if not self._is_text(node.value):
            subject = node.value.name if isinstance(node.value, filter_syntax.Name) else "this"
            raise FilterError(f"{node.word} is for texts, but {subject} is a number", node.value.at)
        try:
            if node.word == "matches":
                self._written_out += written_out(node.text.value)
                require_short(self._written_out)
            return self._test(node.value, node.word, node.text.value)
        except FilterError as error:  # an invalid regular expression
            raise FilterError(str(error), error.at or node.text.at) from error

    def _missing(self, column: filter_syntax.Name) -> _Bool:
        if self._kind(column) == NUMBER:
            value = self._number(column)
            return lambda inputs: _decided(np.isnan(value(inputs)))
        return self._test(column, "missing", "")

    def _test(self, column: filter_syntax.Node, word: str, value: str) -> _Bool:
        """Compile a test of a label column, run once per distinct text, or of a text that must be read."""
        if not isinstance(column, filter_syntax.Name):
            raise FilterError("a text column is expected here", column.at)
        self._expect_text(column)
        kind, name = self._kind(column), column.name
        if kind == TEXT:
            test = TextPredicate(name, word, value)
            self.texts.append(test)
            return lambda inputs: _text_result(test, inputs)
        self.columns.append(name)
        check = TextPredicate(name, word, value).passes
        absent = check(None)

        def ask(inputs: FilterInput) -> Truth:
            codes, texts = inputs.table.codes(name)
            passing = np.array([*map(check, texts), absent], bool)
            return _decided(passing[codes])

        return ask

    # -- numbers ---------------------------------------------------------------------------------

    def _number(self, node: filter_syntax.Node) -> _Array:
        match node:
            case filter_syntax.Number(value):
                constant = np.array(value)
                return lambda inputs: constant
            case filter_syntax.Arithmetic(sign, left, right):
                apply, first, second = _ARITHMETIC[sign], self._number(left), self._number(right)
                return lambda inputs: apply(first(inputs), second(inputs))
            case filter_syntax.Name(name):
                if self._percentile(node):
                    raise FilterError(f"{name} must be alone on one side of a comparison", node.at)
                if self._kind(node) != NUMBER:
                    raise FilterError(f"{name} is a text, but a number is expected here", node.at)
                self.columns.append(name)
                return lambda inputs: inputs.table.number(name)
            case filter_syntax.Text():
                raise FilterError("a number is expected here, not a text", node.at)
        raise FilterError("a number is expected here, not a condition", node.at)

    def _percentile(self, node: filter_syntax.Name) -> int:
        """Return q for a name such as p99 that is not a column, else 0."""
        match = _PERCENTILE.fullmatch(node.name) if node.name not in self._kinds else None
        return int(match[1]) if match else 0

    # -- names -----------------------------------------------------------------------------------

    def _is_text(self, node: filter_syntax.Node) -> bool:
        if isinstance(node, filter_syntax.Name) and not self._percentile(node):
            return self._kind(node) != NUMBER
        return isinstance(node, filter_syntax.Text)

    def _expect_text(self, node: filter_syntax.Node) -> None:
        if isinstance(node, filter_syntax.Name) and self._kind(node) == NUMBER:
            raise FilterError(f"{node.name} holds numbers, but a text column is expected here", node.at)

    def _kind(self, node: filter_syntax.Name) -> str:
        kind = self._kinds.get(node.name)
        if kind is None:
            raise FilterError(f"there is no column {node.name!r}{self._suggestion(node.name)}", node.at)
        return kind

    def _suggestion(self, name: str) -> str:
        lower = {column.lower(): column for column in self._kinds}
        near = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
        return f"; did you mean {' or '.join(lower[match] for match in near)}?" if near else ""

    def _unquoted(self, node: filter_syntax.Name) -> FilterError:
        """Return the error for a name where a text in quotes is expected."""
        if node.name in self._kinds:
            return FilterError("a text column can only be compared with a text in quotes", node.at)
        return FilterError(f"write a text in quotes: {filter_syntax.quote(node.name)}", node.at)


def _mirrored(sign: str) -> str:
    """Return the comparison sign for exchanged sides."""
    return sign.translate(str.maketrans("<>", "><"))


def _decided(mask: np.ndarray) -> Truth:
    return Truth(mask, mask)


def _not(truth: Truth) -> Truth:
    sure = ~truth.maybe
    return Truth(sure, sure if truth.sure is truth.maybe else ~truth.sure)


def _join(sign: Callable[[np.ndarray, np.ndarray], np.ndarray], truths: Sequence[Truth]) -> Truth:
    sure = reduce(sign, [truth.sure for truth in truths])
    if all(truth.sure is truth.maybe for truth in truths):
        return _decided(sure)
    return Truth(sure, reduce(sign, [truth.maybe for truth in truths]))


def _text_result(test: TextPredicate, inputs: FilterInput) -> Truth:
    """Return the result of a text test; undecided for all rows if the texts were not read yet."""
    result = inputs.texts.get(test)
    if result is not None:
        return _decided(result)
    rows = len(inputs.table)
    return Truth(np.zeros(rows, bool), np.ones(rows, bool))


def _compare_to_percentile(
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    values: np.ndarray,
    name: str,
    q: int,
    inputs: FilterInput,
) -> np.ndarray:
    """Compare values with their own percentile, which is computed once, over the rows of the first call."""
    if name not in inputs.percentiles:
        finite = values[np.isfinite(values)]
        inputs.percentiles[name] = float(np.percentile(finite, q)) if len(finite) else np.nan
    return np.broadcast_to(apply(values, np.array(inputs.percentiles[name])), len(inputs.table))
