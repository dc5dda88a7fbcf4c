"""Lines of real logs become mappings; a line that cannot be parsed has a reason."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlpanel.errors import LineError
from rlpanel.sources.records.json_parser import (
    parse,
    parse_lines,
    parse_slow,
    parse_some,
    to_float_array,
    to_python,
)

#: Long lines are read lazily, short ones at once; spaces make a long line of a short one.
LONG = b" " * 2000


def as_plain(line: bytes) -> dict[str, object]:
    return {key: to_python(value) for key, value in parse(line).items()}


@pytest.mark.parametrize("end", [b"", LONG], ids=["short", "long"])
def test_an_object_is_a_mapping(end: bytes) -> None:
    assert as_plain(b'{"a": 1, "b": [1.5, 2], "c": {"d": null}}' + end) == {
        "a": 1,
        "b": [1.5, 2],
        "c": {"d": None},
    }


@pytest.mark.parametrize("end", [b"", LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": NaN}', math.nan),
        (b'{"a": Infinity}', math.inf),
        (b'{"a": -Infinity}', -math.inf),
        (b'{"a": 1e400}', math.inf),
        (b'{"a": 123456789012345678901234567890}', 123456789012345678901234567890),
        (b'{"a": "\\ud800"}', "\ufffd"),
        (b'{"a": "\\ud83d\\ude42"}', "🙂"),
        ('{"a": "x\u2028y"}'.encode(), "x\u2028y"),
        (b'{"a": 1, "a": 2}', 2),
        (b'{"a": 1}\r', 1),
        (b'\xef\xbb\xbf{"a": 1}', 1),
        (b'\xef\xbb\xbf{"a": NaN}', math.nan),
    ],
    ids=["NaN", "Infinity", "-Infinity", "1e400", "big int", "lone surrogate", "surrogate pair", "U+2028",
         "repeated key", "CRLF", "BOM", "BOM and NaN"],
)  # fmt: skip
def test_what_strict_parsers_refuse_is_read(line: bytes, value: object, end: bytes) -> None:
    np.testing.assert_equal(as_plain(line + end), {"a": value})


@pytest.mark.parametrize("end", [b"", LONG], ids=["short", "long"])
def test_a_key_with_a_nul_is_not_taken_for_its_beginning(end: bytes) -> None:
    assert as_plain(b'{"a\\u0000b": 1, "a": 2}' + end) == {"a\0b": 1, "a": 2}


@pytest.mark.parametrize("end", [b"", LONG], ids=["short", "long"])
def test_a_key_with_a_nul_that_is_no_other_keys_beginning_is_read_too(end: bytes) -> None:
    assert as_plain(b'{"a\\u0000b": 1}' + end) == {"a\0b": 1}


@pytest.mark.parametrize("end", [b"", LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "b": "x", "c": [1]}',
        b'{"b": "y", "b": "x"}',
        b'{"b\\u0000": 1, "b": "x"}',
        b'{"b": "x", "c": NaN}',
    ],
    ids=["plain", "repeated key", "NUL", "NaN"],
)  # fmt: skip
def test_some_keys_are_those_of_the_whole_object(line: bytes, end: bytes) -> None:
    assert parse_some(line + end, {"b", "missing"})["b"] == parse(line + end)["b"] == "x"
    assert "missing" not in parse_some(line + end, {"b", "missing"})


def test_keys_that_are_not_asked_for_are_left_out_of_a_long_line() -> None:
    assert parse_some(b'{"a": 1, "b": "x"}' + LONG, {"b"}) == {"b": "x"}


def test_lone_surrogates_deep_inside_are_replaced_too() -> None:
    line = b'{"a": [{"\\udfff": ["\\ud800x", NaN]}]}'
    np.testing.assert_equal(as_plain(line), {"a": [{"\ufffd": ["\ufffdx", math.nan]}]})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": "\xff"}', "invalid UTF-8 at byte 7"),
        (b'{"a": 1,}', "not valid JSON: trailing comma at column 9"),
        (b'{"a": "cut', "not valid JSON: EOF while parsing a string at column 10"),
        (b"\0\0\0", "not valid JSON: expected value at column 1"),
        (b"[1, 2]", "a JSON array where an object was expected"),
        (b'"text"', "a JSON string where an object was expected"),
        (b"12", "a JSON number where an object was expected"),
        (b"true", "a JSON boolean where an object was expected"),
        (b"null", "a JSON null where an object was expected"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON: nested too deeply"),
    ],
    ids=["UTF-8", "comma", "cut", "zeros", "array", "string", "number", "boolean", "null", "deep"],
)  # fmt: skip
def test_a_line_that_is_no_object_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(LineError) as caught:
        parse(line)
    assert str(caught.value) == reason


def test_nesting_that_the_fast_parser_takes_is_read() -> None:
    assert "step" in parse(b'{"step": 1, "a": ' + b"[" * 300 + b"]" * 300 + b"}")


def test_an_array_of_more_items_than_the_fast_parser_counts_is_read() -> None:
    count = 2**24 + 5
    assert len(parse(b'{"a": [' + b"0," * (count - 1) + b"0]}")["a"]) == count


@pytest.mark.parametrize("read", [parse, parse_slow])
@pytest.mark.parametrize(
    ("text", "array"),
    [
        (b"[]", []),
        (b"[1, -2.5, 3e2]", [1, -2.5, 300]),
        (b"[1, null, 2]", [1, math.nan, 2]),
        (b"[null]", [math.nan]),
        (b"[true, false]", [1, 0]),
        (b"[NaN, 1]", [math.nan, 1]),
        (b"[-Infinity]", [-math.inf]),
        (b'["1.5", 2]', [1.5, 2]),
        (b"[[1], [2]]", [1, 2]),
        (b"[1, [2]]", [1, 2]),
        (b"[18446744073709551615]", [18446744073709551615]),
        (b"[123456789012345678901234567890]", [123456789012345678901234567890]),
    ],
)  # fmt: skip
def test_an_array_of_numbers_is_float64(read: object, text: bytes, array: list[float]) -> None:
    found = to_float_array(read(b'{"a": ' + text + b"}" + LONG)["a"])  # type: ignore[operator]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.array(array, dtype=np.float64))


@pytest.mark.parametrize("read", [parse, parse_slow])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[[1, 2], [3, 4]]", "contains nested arrays"),
        (b"[[]]", "contains nested arrays"),
        (b'["x"]', "holds a value that is not a number"),
        (b'[{"x": 1}]', "holds a value that is not a number"),
        (b'{"x": 1}', "is not an array"),
        (b'"text"', "is not an array"),
        (b"7", "is not an array"),
    ],
)  # fmt: skip
def test_what_is_no_array_of_numbers_says_why(read: object, text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        to_float_array(read(b'{"a": ' + text + b"}" + LONG)["a"])  # type: ignore[operator]


def test_lines_are_parsed_in_one_call() -> None:
    lines = [b'{"a": 1, "a": NaN}', b' {"b": [1, {"c": "\\u0041"}]}\r', b"{}"]
    assert repr(parse_lines(lines)) == "[{'a': nan}, {'b': [1, {'c': 'A'}]}, {}]"


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"a": [{"b": 1}', b'{"c": 2}]}', b'{"x": 1}, {"y": 2}'],
        [b'{"a": {"b": 1}', b'"c": {}}', b"{}, {}"],
        [b'{"a": "x', b'y"}', b"{}, {}"],
        [b"{}", b"", b"{}"],
        [b"{}", b"{}, 5"],
        [b"{}", b"[1]"],
        [b'{"a": "\\ud83d"}'],
        [b'\xef\xbb\xbf{"a": 1}'],
        [b'{"a": "\xff"}'],
    ],
    ids=str,
)
def test_lines_that_are_no_objects_one_by_one_are_not_parsed_together(lines: list[bytes]) -> None:
    assert parse_lines(lines) is None
