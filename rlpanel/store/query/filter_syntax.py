"""From a filter's text to its tree: what may be written, and nothing that could run.

::

    filter     := and-chain ("or" and-chain)*
    and-chain  := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum ( ("==" | "!=" | "<" | "<=" | ">" | ">=") sum )*
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

#: Characters of a filter, and brackets and signs inside one another.
MOST_CHARS = 2000
MOST_DEPTH = 30

COMPARE = ("==", "!=", "<=", ">=", "<", ">")
TEXT_TESTS = ("contains", "startswith", "endswith", "matches")
WORDS = frozenset({"and", "or", "not", "in", "missing", "true", "false", *TEXT_TESTS})


@dataclass(frozen=True)
class Number:
    """A number; ``text`` is how it was written, for columns that hold texts."""

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
    """``a < b <= c``: each operand against the next."""

    signs: tuple[str, ...]
    operands: tuple[Node, ...]
    at: int


@dataclass(frozen=True)
class Membership:
    """Whether a value is one of a list."""

    value: Node
    items: tuple[Number | Text, ...]
    at: int


@dataclass(frozen=True)
class TextMatch:
    """A text operator of `TEXT_TESTS`."""

    word: str
    value: Node
    text: Text
    at: int


@dataclass(frozen=True)
class Missing:
    """Whether a column was not logged."""

    column: Name
    at: int


@dataclass(frozen=True)
class Logic:
    """``and``, ``or`` of several; ``not`` of one."""

    word: str
    parts: tuple[Node, ...]
    at: int


Node: TypeAlias = Number | Text | Name | Arithmetic | Comparison | Membership | TextMatch | Missing | Logic


class Token(NamedTuple):
    """A piece of the text: its kind, what stands there, and where."""

    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?!\w)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`[^`]+`)
    | (?P<name>[^\W\d]\w*)
    | (?P<sign>[=!<>]=|[<>()\[\],+\-*/])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_HINTS = {
    "=": "write == to compare",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "~": "write not",
    '"': 'the text has no closing "',
    "'": "the text has no closing '",
    "`": "the name has no closing `",
}


def parse_filter(text: str) -> Node:
    """The tree of a filter.

    Raises
    ------
    FilterError
        With the place where it went wrong.
    """
    if len(text) > MOST_CHARS:
        raise FilterError(f"a filter has at most {MOST_CHARS:,} characters", MOST_CHARS)
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            hint = _HINTS.get(text[at], "numbers, columns and texts in quotes are understood here")
            raise FilterError(f"{text[at]!r} is not understood: {hint}", at)
        kind = str(match.lastgroup)
        token = Token(kind, match[kind], match.start(kind))
        if kind == "name" and token.text.lower() in WORDS:
            token = Token("word", token.text.lower(), token.at)
        found.append(token)
        if kind == "end":
            return found
        at = match.end()


def unquote(literal: str) -> str:
    r"""The text between quotes; ``\"``, ``\\``, ``\n`` and ``\t`` are read as in JSON, others stay."""
    plain = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
    return re.sub(r"\\(.)", lambda found: plain.get(found[1], found[0]), literal[1:-1], flags=re.DOTALL)


def quote(text: str) -> str:
    """A text as a filter writes it."""
    return json.dumps(text, ensure_ascii=False)


class _Parser:
    """Recursive descent over the tokens, a method a rule."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        tree = self._any()
        if self._next.kind != "end":
            raise FilterError(
                f"{self._next.text!r} is not expected here; and, or are missing?", self._next.at
            )
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> Token | None:
        """The next token if it is one of these words or signs."""
        token = self._next
        if token.kind in ("word", "sign") and token.text in texts:
            self._at += 1
            return token
        return None

    def _expect(self, text: str) -> Token:
        token = self._take(text)
        if token is None:
            raise FilterError(f"{text!r} is expected {self._here()}", self._next.at)
        return token

    def _here(self) -> str:
        return "at the end" if self._next.kind == "end" else f"instead of {self._next.text!r}"

    def _any(self) -> Node:
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
        return self._deeper(lambda: Logic("not", (self._negation(),), token.at))

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
                "after not here stands in, contains, startswith, endswith or matches", negated.at
            )
        else:
            return self._compared(left, at)
        return Logic("not", (test,), at) if negated else test

    def _compared(self, left: Node, at: int) -> Node:
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
                raise FilterError("a list holds numbers and texts in quotes", item.at)
            items.append(item)
        return tuple(items)

    def _text(self, word: str) -> Text:
        token = self._next
        if token.kind != "text":
            raise FilterError(f'after {word} stands a text in quotes: {word} "…"', token.at)
        self._at += 1
        return Text(unquote(token.text), token.at)

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), lambda: self._arithmetic(("*", "/"), self._sign))

    def _arithmetic(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        count = 0
        while sign := self._take(*signs):
            count += 1
            if count > MOST_DEPTH:
                raise FilterError("too many terms", sign.at)
            left = Arithmetic(sign.text, left, part(), sign.at)
        return left

    def _sign(self) -> Node:
        minus = self._take("-")
        if minus is None:
            return self._primary()
        value = self._deeper(self._sign)
        if isinstance(value, Number):
            return Number(-value.value, f"-{value.text}", minus.at)
        return Arithmetic("-", Number(0.0, "0", minus.at), value, minus.at)

    def _primary(self) -> Node:
        token = self._next
        if self._take("("):
            inner = self._deeper(self._any)
            self._expect(")")
            return inner
        if self._take("missing"):
            return self._missing(token.at)
        if flag := self._take("true", "false"):
            return Number(float(flag.text == "true"), flag.text, flag.at)
        if token.kind not in ("number", "text", "name", "quoted"):
            raise FilterError(f"a column, number or text is expected {self._here()}", token.at)
        self._at += 1
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

    def _deeper(self, part: Callable[[], Node]) -> Node:
        """One level further inside, where there still is one."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise FilterError(f"more than {MOST_DEPTH} brackets inside one another", self._next.at)
        try:
            return part()
        finally:
            self._depth -= 1
