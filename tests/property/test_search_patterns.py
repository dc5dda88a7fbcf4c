"""Compiling any regular expression of at most 500 characters takes little time and memory, or is refused."""

from __future__ import annotations

import sys
import time

from hypothesis import given
from hypothesis import strategies as st

from rlpanel.errors import FilterError
from rlpanel.store.query.text_predicate import MAX_PATTERN, compile_pattern

_ATOMS = r"""
a . \w [a-z] [^b] []a] [[:alpha:]] [a-z--[aeiou]] [[a-z]&&[^x]] [a-||] [\]a] \) \( \[ \{ \X \R \p{Lu} ß ss ^ $
(?#c) (?i) (?fi) (?r) (?V1) (?R) (?1) (?&n) \1 {9} x{ ] [\u0000-\uffff] (?(DEFINE)(?<n>a+)) (*PRUNE) \L<x>
(?i:[a-zß-ŉ])
"""
_OPENINGS = "( (?: (?i: (?fi: (?<n> (?P<m> (?= (?! (?<= (?> (?| (?(1) (?(?=a) (?s-i:"
_REPEATS = "+ * ? +? ++ {2} {3} {9} {1,} {2,5} {0,99} {,7} {99} {999} {9}? {5}+ {e<=1}"
atom, opening = st.sampled_from(_ATOMS.split()), st.sampled_from(_OPENINGS.split())
repeat = st.sampled_from(["", "", "", *_REPEATS.split()])
sequence = st.lists(st.tuples(atom, repeat).map("".join), min_size=1, max_size=4).map("".join)
nested = st.recursive(
    sequence,
    lambda inner: st.lists(
        st.tuples(opening, inner, st.sampled_from(["", "|", "|b"]), st.just(")"), repeat).map("".join),
        min_size=1,
        max_size=3,
    ).map("".join),
    max_leaves=20,
)
#: The same group many times within itself, and the same part many times in a row.
chain = st.tuples(opening, nested, repeat, st.integers(1, 60)).map(
    lambda drawn: drawn[0] * drawn[3] + drawn[1] + (")" + drawn[2]) * drawn[3]
)
row = st.tuples(st.sampled_from(["", "(?i)", "(?fi)", "(?r)"]), nested, st.integers(1, 60)).map(
    lambda drawn: drawn[0] + drawn[1] * drawn[2]
)


@given(st.one_of(nested, chain, row).map(lambda pattern: pattern[:MAX_PATTERN]))
def test_an_expression_is_compiled_at_little_cost_or_refused(pattern: str) -> None:
    started = time.process_time()
    try:
        compiled = compile_pattern(pattern)
    except FilterError:
        compiled = None
    assert time.process_time() - started < 0.5  # 0.05 s on a machine without other load
    assert compiled is None or sys.getsizeof(compiled) < 20 << 20
