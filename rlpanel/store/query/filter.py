"""A filter expression as masks over columns: typed when it is made, numpy when it is asked.

No Python is ever evaluated. A part that needs a sample's texts may be open while the rest is known, so each
truth is a pair of masks: rows that pass for sure, and rows that may pass.
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
from rlpanel.store.query.text_predicate import TextPredicate

#: The kinds of columns: float columns, short texts, and texts that stay in the files.
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
_PERCENTILE = re.compile(r"p([1-9]\d?)")


#: Codes, shape (N,), and the texts they stand for; -1 where nothing was logged.
Labels: TypeAlias = tuple[np.ndarray, Sequence[str]]


class FilterTable(Protocol):
    """Columns of N rows."""

    def __len__(self) -> int:
        """The number of rows."""

    def number(self, name: str) -> np.ndarray:
        """A number column, shape (N,); NaN where it was not logged."""

    def codes(self, name: str) -> Labels:
        """A label column."""


class Truth(NamedTuple):
    """Which rows pass for sure, and which may; shape (N,) each. The same array where all is known."""

    sure: np.ndarray
    maybe: np.ndarray


@dataclass
class FilterResult:
    """One question to a filter.

    Attributes
    ----------
    table : FilterTable
    texts : dict
        Outcomes of text tests, shape (N,); a test that is not there is open.
    percentiles : dict of str to float
        Values by name ("kl_k3_mean p99"): taken from here, and put here when first needed.
    """

    table: FilterTable
    texts: Mapping[TextPredicate, np.ndarray] = field(default_factory=dict)
    percentiles: dict[str, float] = field(default_factory=dict)


_Bool = Callable[[FilterResult], Truth]
_Array = Callable[[FilterResult], np.ndarray]


class Filter:
    """A filter expression over columns of known kinds.

    Parameters
    ----------
    text : str
        As `rlpanel.store.query.filter_syntax` describes it.
    kinds : mapping of str to str
        Column name to `NUMBER`, `LABEL` or `TEXT`.

    Attributes
    ----------
    columns : list of str
        The number and label columns that it asks.
    texts : list of TextMatch
        What it asks of samples' texts.

    Raises
    ------
    FilterError
        If it is no filter over these columns; the message says where and what was meant, perhaps.
    """

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        self.columns: list[str] = []
        self.texts: list[TextPredicate] = []
        self._kinds = kinds
        self._truth = self._bool(filter_syntax.parse_filter(text))

    def ask(self, asked: FilterResult) -> Truth:
        """Which rows pass."""
        with np.errstate(all="ignore"):
            return self._truth(asked)

    # -- truths ----------------------------------------------------------------------------------

    def _bool(self, node: filter_syntax.Node) -> _Bool:
        match node:
            case filter_syntax.Logic("not", (part,)):
                inner = self._bool(part)
                return lambda asked: _not(inner(asked))
            case filter_syntax.Logic(word, parts):
                sign = operator.and_ if word == "and" else operator.or_
                inners = [self._bool(part) for part in parts]
                return lambda asked: _join(sign, [inner(asked) for inner in inners])
            case filter_syntax.Comparison(signs, operands):
                pairs = zip(operands, signs, operands[1:], strict=False)
                tests = [self._compare(left, sign, right) for left, sign, right in pairs]
                return lambda asked: _join(operator.and_, [test(asked) for test in tests])
            case filter_syntax.Membership():
                return self._membership(node)
            case filter_syntax.TextMatch():
                return self._text_test(node)
            case filter_syntax.Missing():
                return self._missing(node.column)
        what = node.name if isinstance(node, filter_syntax.Name) else "this"
        raise FilterError(f"{what} is a value: compare it with something, as in {what} > 0", node.at)

    def _compare(self, left: filter_syntax.Node, sign: str, right: filter_syntax.Node) -> _Bool:
        if self._is_text(left) or self._is_text(right):
            return self._compare_texts(left, sign, right)
        if isinstance(left, filter_syntax.Name) and self._percentile(left):
            left, sign, right = right, _turned(sign), left
        apply, value = _COMPARE[sign], self._number(left)
        if isinstance(right, filter_syntax.Name) and (q := self._percentile(right)):
            name = f"{left.name if isinstance(left, filter_syntax.Name) else f'at {left.at + 1}'} p{q}"
            return lambda asked: _known(_against(apply, value(asked), name, q, asked))
        other = self._number(right)
        return lambda asked: _known(np.broadcast_to(apply(value(asked), other(asked)), len(asked.table)))

    def _compare_texts(self, left: filter_syntax.Node, sign: str, right: filter_syntax.Node) -> _Bool:
        if isinstance(left, (filter_syntax.Text, filter_syntax.Number)):
            left, sign, right = right, _turned(sign), left
        self._expect_text(left)
        if sign not in ("==", "!="):
            raise FilterError(f"texts are compared with == and !=, not {sign}", left.at)
        equal = self._one_of(left, [right])
        return equal if sign == "==" else lambda asked: _not(equal(asked))

    def _membership(self, node: filter_syntax.Membership) -> _Bool:
        if self._is_text(node.value):
            return self._one_of(node.value, node.items)
        value = self._number(node.value)
        for item in node.items:
            if isinstance(item, filter_syntax.Text):
                raise FilterError("the column holds numbers, and this is a text", item.at)
        numbers = [item.value for item in node.items if isinstance(item, filter_syntax.Number)]
        return lambda asked: _known(np.broadcast_to(np.isin(value(asked), numbers), len(asked.table)))

    def _one_of(self, column: filter_syntax.Node, items: Sequence[filter_syntax.Node]) -> _Bool:
        """Whether a text column holds one of these; a number stands for the text it is written as."""
        texts = []
        for item in items:
            if isinstance(item, filter_syntax.Name):
                raise self._unquoted(item)
            if not isinstance(item, (filter_syntax.Text, filter_syntax.Number)):
                raise FilterError("a text in quotes is expected here", item.at)
            texts.append(item.value if isinstance(item, filter_syntax.Text) else item.text)
        if not texts:
            return lambda asked: _known(np.zeros(len(asked.table), bool))
        tests = [self._test(column, "==", text) for text in texts]
        return lambda asked: _join(operator.or_, [test(asked) for test in tests])

    def _text_test(self, node: filter_syntax.TextMatch) -> _Bool:
        if not self._is_text(node.value):
            what = node.value.name if isinstance(node.value, filter_syntax.Name) else "it"
            raise FilterError(f"{node.word} is for texts, and {what} is a number", node.value.at)
        try:
            return self._test(node.value, node.word, node.text.value)
        except FilterError as error:  # a regular expression that is none
            raise FilterError(str(error), error.at or node.text.at) from error

    def _missing(self, column: filter_syntax.Name) -> _Bool:
        if self._kind(column) == NUMBER:
            value = self._number(column)
            return lambda asked: _known(np.isnan(value(asked)))
        return self._test(column, "missing", "")

    def _test(self, column: filter_syntax.Node, word: str, value: str) -> _Bool:
        """A test of a label column, once for each distinct text, or of a text that must be read."""
        if not isinstance(column, filter_syntax.Name):
            raise FilterError("a text column is expected here", column.at)
        self._expect_text(column)
        kind, name = self._kind(column), column.name
        if kind == TEXT:
            test = TextPredicate(name, word, value)
            self.texts.append(test)
            return lambda asked: _read(test, asked)
        self.columns.append(name)
        check = TextPredicate(name, word, value).passes
        absent = check(None)

        def ask(asked: FilterResult) -> Truth:
            codes, texts = asked.table.codes(name)
            passing = np.array([*map(check, texts), absent], bool)
            return _known(passing[codes])

        return ask

    # -- numbers ---------------------------------------------------------------------------------

    def _number(self, node: filter_syntax.Node) -> _Array:
        match node:
            case filter_syntax.Number(value):
                constant = np.array(value)
                return lambda asked: constant
            case filter_syntax.Arithmetic(sign, left, right):
                apply, first, second = _ARITHMETIC[sign], self._number(left), self._number(right)
                return lambda asked: apply(first(asked), second(asked))
            case filter_syntax.Name(name):
                if self._percentile(node):
                    raise FilterError(f"{name} stands alone on one side of a comparison", node.at)
                if self._kind(node) != NUMBER:
                    raise FilterError(f"{name} is a text, and a number is expected here", node.at)
                self.columns.append(name)
                return lambda asked: asked.table.number(name)
            case filter_syntax.Text():
                raise FilterError("a number is expected here, and this is a text", node.at)
        raise FilterError("a number is expected here, and this is true or false", node.at)

    def _percentile(self, node: filter_syntax.Name) -> int:
        found = _PERCENTILE.fullmatch(node.name) if node.name not in self._kinds else None
        return int(found[1]) if found else 0

    # -- names -----------------------------------------------------------------------------------

    def _is_text(self, node: filter_syntax.Node) -> bool:
        if isinstance(node, filter_syntax.Name) and not self._percentile(node):
            return self._kind(node) != NUMBER
        return isinstance(node, filter_syntax.Text)

    def _expect_text(self, node: filter_syntax.Node) -> None:
        if isinstance(node, filter_syntax.Name) and self._kind(node) == NUMBER:
            raise FilterError(f"{node.name} holds numbers, and this asks for a text", node.at)

    def _kind(self, node: filter_syntax.Name) -> str:
        kind = self._kinds.get(node.name)
        if kind is None:
            raise FilterError(f"there is no column {node.name!r}{self._meant(node.name)}", node.at)
        return kind

    def _meant(self, name: str) -> str:
        lower = {known.lower(): known for known in self._kinds}
        near = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
        return f"; did you mean {' or '.join(lower[found] for found in near)}?" if near else ""

    def _unquoted(self, node: filter_syntax.Name) -> FilterError:
        if node.name in self._kinds:
            return FilterError("a text column is compared with a text in quotes", node.at)
        return FilterError(f"a text stands in quotes: {filter_syntax.quote(node.name)}", node.at)


def _turned(sign: str) -> str:
    """The sign that says the same with its sides exchanged."""
    return sign.translate(str.maketrans("<>", "><"))


def _known(mask: np.ndarray) -> Truth:
    return Truth(mask, mask)


def _not(truth: Truth) -> Truth:
    sure = ~truth.maybe
    return Truth(sure, sure if truth.sure is truth.maybe else ~truth.sure)


def _join(sign: Callable[[np.ndarray, np.ndarray], np.ndarray], truths: Sequence[Truth]) -> Truth:
    sure = reduce(sign, [truth.sure for truth in truths])
    if all(truth.sure is truth.maybe for truth in truths):
        return _known(sure)
    return Truth(sure, reduce(sign, [truth.maybe for truth in truths]))


def _read(test: TextPredicate, asked: FilterResult) -> Truth:
    found = asked.texts.get(test)
    if found is not None:
        return _known(found)
    rows = len(asked.table)
    return Truth(np.zeros(rows, bool), np.ones(rows, bool))


def _against(
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    values: np.ndarray,
    name: str,
    q: int,
    asked: FilterResult,
) -> np.ndarray:
    """Values against their own percentile; of many rows the percentile is the first question's."""
    if name not in asked.percentiles:
        finite = values[np.isfinite(values)]
        asked.percentiles[name] = float(np.percentile(finite, q)) if len(finite) else np.nan
    return np.broadcast_to(apply(values, np.array(asked.percentiles[name])), len(asked.table))
