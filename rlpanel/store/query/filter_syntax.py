"""Parser for filter expressions: turns a text into a syntax tree; no Python code is evaluated.

::

    filter     := and-chain ("or" and-chain)*
    and-chain  := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum ( ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") sum )*
                | sum ["not"] "in" "[" value, ... "]"
                | sum ["not"] ("contains" | "startswith" | "endswith" | "matches") text
    sum        := product (("+" | "-") product)*
    product    := sign (("*" | "/") sign)*
    sign       := "-" sign | number | "text" | column | `column` | "missing" "(" column ")" | "(" filter ")"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rlpanel.errors import FilterError

#: Limits on the number of characters and on the nesting of brackets and signs.
MAX_CHARS = 2000
MAX_DEPTH = 30

COMPARE = ("==", "!=", "<=", ">=", "<", ">")
TEXT_TESTS = ("contains", "startswith", "endswith", "matches")
WORDS = frozenset({"and", "or", "not", "in", "missing", "true", "false", *TEXT_TESTS})


@dataclass(frozen=True)
class Number:
    """A number; ``text`` is its spelling, for comparisons with text columns."""

    value: float
    text: str
    at: int


@dataclass(frozen=True)
class Text:
    """A text in quotes."""

    value: str
    at: int


@dataclass(frozen=True)
class Name:
    """A column, or a percentile such as p99."""

    name: str
    at: int


@dataclass(frozen=True)
class Arithmetic:
    """``+``, ``-``, ``*`` or ``/`` of two numbers."""

    sign: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True)
class Comparison:
    """A chain ``a < b <= c``, which compares each operand with the next."""

    signs: tuple[str, ...]
    operands: tuple[Node, ...]
    at: int


@dataclass(frozen=True)
class Membership:
    """A test whether a value is in a list."""

    value: Node
    items: tuple[Number | Text, ...]
    at: int


@dataclass(frozen=True)
class TextMatch:
    """A text test with an operator of `TEXT_TESTS`."""

    word: str
    value: Node
    text: Text
    at: int


@dataclass(frozen=True)
class Missing:
    """A test whether a column was not logged."""

    column: Name
    at: int


@dataclass(frozen=True)
class Logic:
    """``and`` or ``or`` of several parts, or ``not`` of one."""

    word: str
    parts: tuple[Node, ...]
    at: int


Node: TypeAlias = Number | Text | Name | Arithmetic | Comparison | Membership | TextMatch | Missing | Logic


class Token(NamedTuple):
    """A token: its kind, its text and its position in the filter."""

    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?!\w)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`[^`]+`)
    | (?P<name>[^\W\d]\w*)
    | (?P<sign>[=!<>]=|[=<>()\[\],+\-*/])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_HINTS = {
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "~": "write not",
    '"': 'the text has no closing "',
    "'": "the text has no closing '",
    "`": "the name has no closing `",
}


def parse_filter(text: str) -> Node:
    """Parse a filter into its syntax tree.

    Raises
    ------
    FilterError
        If the text is not a filter; the error has the position.
    """
    if len(text) > MAX_CHARS:
        raise FilterError(f"a filter has at most {MAX_CHARS:,} characters", MAX_CHARS)
    return _Parser(_tokens(text)).whole()


def conditions_of(text: str) -> list[str]:
    """Return the conditions that a filter joins with *and*, each as it is written.

    A text that is not a filter, or joins with *or*, is one condition; an empty one has none.
    """
    try:
        tokens = _tokens(text)
        tree = _Parser(tokens).whole()
    except FilterError:
        tree, tokens = None, []
    if not isinstance(tree, Logic) or tree.word != "and":
        return [text.strip()] if text.strip() else []
    starts, depth = [0], 0
    ends = []
    for token in tokens:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0) if token.kind == "sign" else 0
        if token.kind == "word" and token.text == "and" and not depth:
            ends.append(token.at)
            starts.append(token.at + len("and"))
    return [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)], strict=True)]


def _tokens(text: str) -> list[Token]:
    tokens, position = [], 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            character = text[position]
            hint = _HINTS.get(character, "write a number, a column or a text in quotes")
            raise FilterError(f"{character!r} is not understood: {hint}", position)
        kind = str(match.lastgroup)
        token = Token(kind, match[kind], match.start(kind))
        if kind == "name" and token.text.lower() in WORDS:
            token = Token("word", token.text.lower(), token.at)
        elif token.text == "=" and kind == "sign":
            token = Token(kind, "==", token.at)
        tokens.append(token)
        if kind == "end":
            return tokens
        position = match.end()


def unquote(literal: str) -> str:
    r"""Return the text between quotes; ``\"``, ``\\``, ``\n`` and ``\t`` are unescaped, others stay."""
    plain = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[0]), literal[1:-1], flags=re.DOTALL)


def quote(text: str) -> str:
    """Return a text in quotes, as it is written in a filter."""
    return json.dumps(text, ensure_ascii=False)


class _Parser:
    """Recursive descent parser with one method per grammar rule."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def whole(self) -> Node:
        """Parse the whole text; FilterError if something follows the filter."""
        tree = self._filter()
        if self._next.kind != "end":
            raise FilterError(
                f"{self._next.text!r} is not expected here; is 'and' or 'or' missing?", self._next.at
            )
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self, *texts: str) -> Token | None:
        """Consume and return the next token if it is one of these words or signs, else return None."""
        token = self._next
        if token.kind in ("word", "sign") and token.text in texts:
            self._position += 1
            return token
        return None

    def _expect(self, text: str) -> Token:
        token = self._take(text)
        if token is None:
            raise FilterError(f"{text!r} is expected {self._instead()}", self._next.at)
        return token

    def _instead(self) -> str:
        return "at the end" if self._next.kind == "end" else f"instead of {self._next.text!r}"

    def _filter(self) -> Node:
        return self._chain("or", lambda: self._chain("and", self._negation))

    def _chain(self, word: str, part: Callable[[], Node]) -> Node:
        at = self._next.at
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Logic(word, tuple(parts), at)

    def _negation(self) -> Node:
        token = self._take("not")
        if token is None:
            return self._comparison()
        return self._nested(lambda: Logic("not", (self._negation(),), token.at))

    def _comparison(self) -> Node:
        at = self._next.at
        left = self._sum()
        negated = self._take("not")
        if self._take("in"):
            test: Node = Membership(left, self._items(), at)
        elif word := self._take(*TEXT_TESTS):
            test = TextMatch(word.text, left, self._text(word.text), at)
        elif negated:
            raise FilterError(
                "not must be followed by in, contains, startswith, endswith or matches here", negated.at
            )
        else:
            return self._comparison_chain(left, at)
        return Logic("not", (test,), at) if negated else test

    def _comparison_chain(self, left: Node, at: int) -> Node:
        signs, operands = [], [left]
        while sign := self._take(*COMPARE):
            signs.append(sign.text)
            operands.append(self._sum())
        return Comparison(tuple(signs), tuple(operands), at) if signs else left

    def _items(self) -> tuple[Number | Text, ...]:
        self._expect("[")
        items: list[Number | Text] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            item = self._sign()
            if not isinstance(item, (Number, Text)):
                raise FilterError("a list may only hold numbers and texts in quotes", item.at)
            items.append(item)
        return tuple(items)

    def _text(self, word: str) -> Text:
        token = self._next
        if token.kind != "text":
            raise FilterError(f'{word} must be followed by a text in quotes: {word} "…"', token.at)
        self._position += 1
        return Text(unquote(token.text), token.at)

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), lambda: self._arithmetic(("*", "/"), self._sign))

    def _arithmetic(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        count = 0
        while sign := self._take(*signs):
            count += 1
            if count > MAX_DEPTH:
                raise FilterError("too many terms", sign.at)
            left = Arithmetic(sign.text, left, part(), sign.at)
        return left

    def _sign(self) -> Node:
        minus = self._take("-")
        if minus is None:
            return self._primary()
        value = self._nested(self._sign)
        if isinstance(value, Number):
            return Number(-value.value, f"-{value.text}", minus.at)
        return Arithmetic("-", Number(0.0, "0", minus.at), value, minus.at)

    def _primary(self) -> Node:
        token = self._next
        if self._take("("):
            inner = self._nested(self._filter)
            self._expect(")")
            return inner
        if self._take("missing"):
            return self._missing(token.at)
        if flag := self._take("true", "false"):
            return Number(float(flag.text == "true"), flag.text, flag.at)
        if token.kind not in ("number", "text", "name", "quoted"):
            raise FilterError(f"a column, number or text is expected {self._instead()}", token.at)
        self._position += 1
        if token.kind == "number":
            return Number(float(token.text), token.text, token.at)
        if token.kind == "text":
            return Text(unquote(token.text), token.at)
        return Name(token.text.strip("`"), token.at)

    def _missing(self, at: int) -> Node:
        self._expect("(")
        column = self._primary()
        if not isinstance(column, Name):
            raise FilterError("missing(…) takes a column", column.at)
        self._expect(")")
        return Missing(column, at)

    def _nested(self, part: Callable[[], Node]) -> Node:
        """Parse a part one nesting level deeper; FilterError beyond `MAX_DEPTH` levels."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FilterError(
                f"brackets or signs are nested more than {MAX_DEPTH} levels deep", self._next.at
            )
        try:
            return part()
        finally:
            self._depth -= 1
