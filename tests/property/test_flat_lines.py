"""Lines that are read many at a time give the rows that they give one by one as records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.readers import jsonl
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import Block
from rlpanel.sources.records.column_batch import ColumnReader
from rlpanel.sources.records.json_parser import parse_slow
from rlpanel.sources.records.record_types import Adapter, Chunk
from rlpanel.store.columns import row_builder
from rlpanel.store.columns.logged_columns import text_columns
from rlpanel.store.columns.row_builder import RowBuilder, Rows

TEXTS = [
    *(
        "",
        "plain text, longer than the shortest prompt that counts",
        "三加四等于几",
        "🙂\U0001f1e8\U0001f1f3",
        "\ufffd",
    ),
    *("<|im_start|>user\nHow many apples are left in the basket?<|im_end|>", "[INST] a [/INST]", "\u2028\0"),
    *("data:image/png;base64,AAAA", "πθ हिन्दी 한국어 сколько", "x" * 1200),
]
#: JSON texts of values, as other programs write them, too.
VALUES = [
    *(
        "0",
        "-0",
        "1",
        "0.25",
        "1e3",
        "1e400",
        "-2.5E-3",
        "NaN",
        "-Infinity",
        "null",
        "true",
        '"word"',
        '"12"',
    ),
    *("9223372036854775807", "9223372036854775808", "1" + "0" * 400, "1" * 5000, "[]", "{}", "[1, [2]]"),
    *(
        '{"a": 1, "b": null}',
        '{"b": 1, "a": 2}',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\u003c|im_end|>"',
        '"\\/"',
    ),
    *(json.dumps("x" * 200), '"\\u0000"', "01", "nope"),
]
UIDS = ['"p_1_2"', '"p_q_0_1"', '"other"', f'"pad{"0" * 32}_0_0"', "7", "null", '"p_1_2\\n"']
KEYS = {
    "native": [
        "step",
        "rank",
        "prompt",
        "response",
        "reward",
        "rewards",
        "group",
        "truncated",
        "finish_reason",
    ],
    "verl": ["input", "output", "score", "gts", "step", "acc", "pred", "uid", "group", "turn"],
}
FORMATS: dict[str, tuple[Adapter, str]] = {
    "native": (Native(), "log_val.jsonl"),
    "verl": (Verl(), "7.jsonl"),
}
DATA = Path(__file__).parents[1] / "data"
numbers = st.sampled_from(["1", "2", "0.5", "-1.25", "true"])
texts = st.sampled_from(TEXTS).map(json.dumps) | st.text(max_size=8).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
_TEXT_KEYS = {"prompt", "response", "input", "output", "gts"}


@st.composite
def lines(draw: st.DrawFn, format_name: str) -> list[bytes]:
    """Lines that mostly have the same keys and types, and some that are odd in any way."""
    always = [
        *KEYS[format_name][: draw(st.integers(3, 6))],
        *draw(st.sets(st.sampled_from(KEYS[format_name]))),
    ]
    found = []
    for _ in range(draw(st.integers(1, 12))):
        row = [(key, draw(_usual(key))) for key in dict.fromkeys(always)]
        flaw = draw(st.sampled_from(["", "", "", "", "value", "missing", "extra", "twice", "line"]))
        at = draw(st.integers(0, len(row) - 1))
        if flaw == "value":
            row[at] = (row[at][0], draw(st.sampled_from(VALUES)))
        elif flaw == "missing":
            del row[at]
        elif flaw in ("extra", "twice"):
            key = draw(st.sampled_from(["mine", "logged_x", "prompt_chars", "k\0", "k" * 200]))
            row.append((row[at][0] if flaw == "twice" else key, draw(st.sampled_from(VALUES))))
        text = ", ".join(f"{json.dumps(key)}: {value}" for key, value in row)
        line = b"{%b}" % text.encode("utf-8", "surrogatepass")
        found.append(draw(_odd(line)) if flaw == "line" else line)
    return found


def _usual(key: str) -> st.SearchStrategy[str]:
    if key == "uid":
        return st.sampled_from(UIDS[:2]) | st.sampled_from(UIDS)
    if key == "rewards":
        return st.just('{"a": 0.5, "b": 1}')
    if key in ("step", "rank", "turn"):
        return st.sampled_from(["1", "2", "3"])
    if key in ("group", "finish_reason", "pred"):
        return st.sampled_from(['"stop"', '"length"', '"a"'])
    return texts if key in _TEXT_KEYS else numbers


def _odd(line: bytes) -> st.SearchStrategy[bytes]:
    """Other bytes in place of a line: with white space around it, cut, two in one, or none."""
    return st.sampled_from(
        [
            *(line + b"\r", b"  " + line, b"\xef\xbb\xbf" + line, b"", b" \t", line[: len(line) // 2]),
            *(
                line[len(line) // 2 :],
                line + line,
                line + b"," + line,
                line + b", 5",
                b"\xff\xfe",
                b"[1]",
                b"7",
            ),
            *(line[:-1] + b', "n": [{"a": 1}', b'{"c": 2}]}', line[:-1] + b', "t": "', b'"}'),
        ]
    )


def read(data: bytes, format_name: str) -> tuple[Chunk, Rows | None]:
    """Read the lines as one block."""
    return read_block(data, *FORMATS[format_name])


def read_block(data: bytes, adapter: Adapter, path: str) -> tuple[Chunk, Rows | None]:
    """Read a block of lines as rows."""
    file, chunk, builder = JsonlFile(path, path, adapter), Chunk(), RowBuilder()
    file.add_block(Block(0, 0, data, len(data)), chunk)
    builder.add_chunk(0, chunk)
    return chunk, builder.flush()


@pytest.mark.parametrize("format_name", ["native", "verl"])
@given(data=st.data())
def test_many_lines_at_once_give_the_rows_of_records(format_name: str, data: st.DataObject) -> None:
    written = b"".join(line + b"\n" for line in data.draw(lines(format_name)) * 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "LINES_AT_ONCE", data.draw(st.integers(2, 9)))
        patch.setattr(jsonl, "CACHED_BYTES", data.draw(st.sampled_from([1, 300, 128 << 10])))
        patch.setattr(row_builder, "MIN_BATCH_SAMPLES", 1)
        found, found_rows = read(written, format_name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ColumnReader, "make_plan", lambda self, fields, record: False)
        expected, expected_rows = read(written, format_name)
    for name in ("raw_locators", "bad", "good_lines", "blank_lines", "bytes"):
        assert getattr(found, name) == getattr(expected, name)
    assert _plain(found_rows) == _plain(expected_rows)


def test_a_row_that_fills_a_batch_is_no_sample_among_many() -> None:
    row = {"input": "q", "output": "a", "score": 0.0, "step": 1, "uid": "other"}
    rows = [row] * 100 + [row | {"uid": f"pad{'0' * 32}_0_0"}] + [row] * 100
    chunk, _ = read(b"".join(json.dumps(line).encode() + b"\n" for line in rows), "verl")
    assert (len(chunk), chunk.good_lines) == (200, 201)


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.jsonl")), ids=lambda path: str(path.relative_to(DATA)))
def test_lines_of_trainers_give_the_rows_of_records(path: Path) -> None:
    lines, name = path.read_bytes().splitlines(), path.relative_to(DATA).as_posix()
    fitting = [adapter for adapter in ADAPTERS if adapter.accepts(name, parse_slow(lines[0]))]
    for adapter in fitting:
        written = b"".join(line + b"\n" for line in lines * (1 + 200 // len(lines)))
        found, found_rows = read_block(written, adapter, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ColumnReader, "make_plan", lambda self, fields, record: False)
            expected, expected_rows = read_block(written, adapter, name)
        assert found.raw_locators == expected.raw_locators
        assert found.bad == expected.bad
        assert _plain(found_rows) == _plain(expected_rows)


def _plain(rows: Rows | None) -> dict[str, Any]:
    if rows is None:
        return {}
    arrays = {**rows.metadata, **rows.numbers}
    labels = {name: list(column) for name, column in rows.labels.items() if any(column)}
    return {name: repr(column.tolist()) for name, column in sorted(arrays.items())} | labels


some_texts = st.lists(st.sampled_from([*TEXTS, None]), max_size=4).map(
    lambda parts: None if None in parts else "".join(part or "" for part in parts)
)


@given(st.lists(st.tuples(some_texts, some_texts), min_size=1, max_size=12), st.integers(1, 12))
def test_a_text_gives_the_same_numbers_among_others_as_alone(
    pairs: list[tuple[str | None, str | None]], at_once: int
) -> None:
    prompts, responses = map(list, zip(*pairs, strict=True))
    together, hashes = text_columns(prompts, responses, at_once=at_once)
    for row, (prompt, response) in enumerate(pairs):
        alone, _ = text_columns([prompt], [response])
        for name, column in together.items():
            np.testing.assert_equal(column[row], alone.get(name, np.array([np.nan]))[0], name)
        found = [int(hashes[f"{name}_hash"][row]) for name in ("prompt", "response")]
        assert found == [xxh3_64_intdigest((text or "").encode()) for text in (prompt, response)]
