"""The fast and the slow parser agree on every valid line, and metrics keep their invariants."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlpanel.errors import LineError
from rlpanel.metrics.kl_divergence import kl_k2, kl_k3, kl_rllb, log_ratio
from rlpanel.schema import BY_NAME
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.records.json_parser import parse, parse_slow, to_python
from rlpanel.sources.records.record_types import Record
from tests.property import strategies

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), strategies.hostile),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = [*BY_NAME, "group_id", "entropies", "rewards", "messages", "uid", "anything"]
#: Long lines are parsed lazily, short ones immediately; spaces turn a short line into a long one.
ends = st.sampled_from([b"", b" " * 2000])
odd_samples = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=8)


def outcome(document: Any, *, full: bool) -> list[Record] | str:
    """Return the records, or the reason why there are none."""
    try:
        return Native().read(document, "x.jsonl", full=full)
    except LineError as error:
        return str(error)


def comparable(records: list[Record] | str) -> object:
    """Return records as plain values, with arrays as bytes, so that NaN equals itself."""
    return records if isinstance(records, str) else [_comparable(record) for record in records]


def _comparable(record: Record) -> list[object]:
    exact = [getattr(record, name) for name in ("step", "rank", "labels", "texts", "tokens")]
    bits = [(name, array.tobytes()) for name, array in record.arrays.items()]
    return [*exact, repr(record.numbers), repr(record.extra), len(record.notes), *bits]


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5), st.booleans(), ends)
def test_both_parsers_see_the_same_object(document: dict[str, Any], ascii_only: bool, end: bytes) -> None:
    line = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + end
    try:
        fast: Any = {key: to_python(value) for key, value in parse(line).items()}
    except LineError as error:
        fast = str(error)
    try:
        slow: Any = parse_slow(line)
    except LineError as error:
        slow = str(error)
    assert repr(fast) == repr(slow)


@given(st.one_of(strategies.samples(), odd_samples), st.booleans(), ends)
def test_both_parsers_give_the_same_records(row: dict[str, Any], full: bool, end: bytes) -> None:
    line = json.dumps(row).encode() + end
    fast = comparable(outcome(parse(line), full=full))
    assert fast == comparable(outcome(parse_slow(line), full=full))


@given(odd_samples, st.integers(0, 9), ends)
def test_no_object_makes_the_adapter_fail_otherwise_than_it_says(
    row: dict[str, Any], step: int, end: bytes
) -> None:
    (record,) = Native().read(
        parse(json.dumps(row | {"step": step, "prompt": ""}).encode() + end), "x.jsonl", full=False
    )
    assert record.step == step


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_line_that_says_why_not(line: bytes) -> None:
    try:
        found: object = parse(line)
    except LineError as error:
        found = str(error)
    assert isinstance(found, dict) or found


tokens = arrays(np.float64, st.integers(1, 30), elements=st.floats(-50, 0))


@given(st.data(), tokens)
def test_k2_and_k3_are_never_negative_and_zero_for_equal_models(
    data: st.DataObject, logprobs: np.ndarray
) -> None:
    other = data.draw(arrays(np.float64, len(logprobs), elements=st.floats(-50, 0)))
    near = logprobs + data.draw(arrays(np.float64, len(logprobs), elements=st.floats(-1e-8, 1e-8)))
    for estimator in (kl_k2, kl_k3, kl_rllb):
        assert (estimator(logprobs, other) >= 0).all()
        assert (estimator(logprobs, near) >= 0).all()
        assert (estimator(logprobs, logprobs) == 0).all()


@given(st.data(), tokens)
def test_the_log_ratio_changes_its_sign_with_the_roles(data: st.DataObject, logprobs: np.ndarray) -> None:
    other = data.draw(arrays(np.float64, len(logprobs), elements=st.floats(-50, 0)))
    assert (log_ratio(logprobs, other) == -log_ratio(other, logprobs)).all()
