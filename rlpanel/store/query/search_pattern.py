"""Regular expressions of searches and filters, which are bounded before they are compiled.

Compiling copies what is repeated: ``(a?){999}`` becomes a thousand copies of ``a?``, and ``(a+)+`` two of
``a+``. Nested repeats multiply: 26 characters can take 10 GB. So the length with all copies is limited.
"""

from __future__ import annotations

import re

import regex

from rlpanel.errors import FilterError

#: Maximum number of characters of a regular expression.
MAX_PATTERN = 500
#: Maximum number of characters of a regular expression with all its repeats written out.
MAX_WRITTEN_OUT = 10_000

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z0-9]*x")
_CASELESS = re.compile(r"\(\?[a-zA-Z0-9-]*i")
#: A set that ignores case is compiled with all letters that have several spellings, such as ß.
_CASELESS_SET = 10
#: Repeats with their suffix ``?`` or ``+``; the least count of ``{n}`` and ``{n,m}`` is a group.
_REPEAT = r"(?:[?*+]|\{([0-9]*)(?:,[0-9]*)?\})[?+]?"
#: Parts of an expression without escaped characters.
_PART = re.compile(
    rf"""
      (?P<call>\(\?(?:R|[+-]?[0-9]+|&[^)]*|P[>&][^)]*)\))  # a group's content, once more
    | (?P<ignored>\(\?\#[^)]*\)|\(\?[a-zA-Z0-9-]*\))  # a comment or flags: a repeat skips it
    | (?P<open>\(\??)
    | (?P<close>\))
    | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|[^\[\]])*\])
    | (?P<repeat>{_REPEAT})
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Operations of sets, and a set within a set: where they end depends on details.
_SET_OPERATION = re.compile(r"\|\||~~|&&|--")


def compile_pattern(text: str) -> regex.Pattern[str]:
    """Compile a regular expression of a user.

    Raises
    ------
    FilterError
        If it is not valid, or too long with all its repeats written out.
    """
    if len(text) > MAX_PATTERN:
        raise FilterError(f"a regular expression has at most {MAX_PATTERN} characters")
    require_short(written_out(text))
    try:
        return regex.compile(text, regex.VERSION1, cache_pattern=False)
    except (regex.error, ValueError, LookupError, RecursionError, OverflowError) as error:
        raise FilterError(f"this is not a valid regular expression: {error}") from error
    finally:
        regex.purge()  # it remembers every expression's locale even if it does not cache the expression


def require_short(length: int) -> None:
    """Raise FilterError if regular expressions of this length, written out, are too long to be compiled."""
    if length > MAX_WRITTEN_OUT:
        raise FilterError(
            f"the repeats of regular expressions are too many: written out they have {_rounded(length)} "
            f"characters, and at most {MAX_WRITTEN_OUT:,} are allowed; use * or a smaller count"
        )


def written_out(text: str) -> int:
    """Return how many characters an expression has with all its repeats written out, or a larger number.

    Raises
    ------
    FilterError
        If it has the flag ``x``, with which spaces and comments may stand anywhere.
    """
    plain = _ESCAPED.sub("e", text)
    if _VERBOSE.search(plain):
        raise FilterError("the flag (?x) is not available: write the expression without spaces and comments")
    set_size = _CASELESS_SET if _CASELESS.search(plain) else 1
    groups = [_Group()]
    calls = 0
    for part in _PART.finditer(plain):
        kind, found = part.lastgroup, part[0]
        if (kind == "set" and _SET_OPERATION.search(found)) or (kind == "other" and found == "["):
            return _all_nested(plain) * set_size
        if kind == "open":
            groups.append(_Group())
        elif kind == "close":
            inner = groups.pop() if len(groups) > 1 else _Group()
            groups[-1].add(inner.length + 2)
        elif kind == "repeat":
            groups[-1].repeat(_copies(found))
        elif kind != "ignored":
            groups[-1].add(len(found) * (set_size if kind == "set" else 1))
            calls += kind == "call"
    # Each call adds at most one copy of a group, for another direction or with errors allowed.
    return sum(group.length for group in groups) * (1 + calls)


class _Group:
    """Length of a group's content, and of its last part, which a repeat repeats."""

    def __init__(self) -> None:
        self.length = self._last = 0

    def add(self, length: int) -> None:
        self.length += length
        self._last = length

    def repeat(self, copies: int) -> None:
        self.length += self._last * (copies - 1)


def _copies(repeat: str) -> int:
    """Return how many copies of its part a repeat is compiled to: its least count and one for all others."""
    least = re.match(r"\{([0-9]*)", repeat)
    return 1 + (int(least[1] or 0) if least else int(repeat[0] == "+"))


def _all_nested(text: str) -> int:
    """Return the length as if each repeat repeated the whole expression: its groups are not known."""
    length = len(text)
    for repeat in re.finditer(_REPEAT, text):
        length *= _copies(repeat[0])
    return length


def _rounded(length: int) -> str:
    """Return a number that may have hundreds of digits."""
    return f"{length:,}" if length < 10**12 else "more than a million million"
