"""A search in blocks of bytes finds the same as reading line by line, for any way of writing JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlpanel import schema
from rlpanel.settings import Reading
from rlpanel.sources.records.fields import build_record, build_texts
from rlpanel.sources.records.json_parser import parse
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.query.text_predicate import ByteSearch, TextPredicate, fold_bytes
from rlpanel.store.query.text_scan import scan
from tests.limits import store_limits
from tests.property.strategies import samples
from tests.property.test_invariants import folder

#: Few letters, so that texts contain each other: both cases, escaped characters, two and four bytes.
texts = st.text('aAbK7 +_雨下🙂é\u212a<"\\\n', max_size=12)
#: Ways to write JSON: plain, all non-ASCII escaped, upper-case escapes, safe for HTML, an escaped letter.
writers: list[Callable[[str], str]] = [
    lambda text: json.dumps(text, ensure_ascii=False),
    json.dumps,
    lambda text: json.dumps(text).replace("\\u96e8", "\\u96E8").replace("\\ud83d\\ude42", "\\uD83D\\uDE42"),
    lambda text: json.dumps(text).replace("<", "\\u003c"),
    lambda text: json.dumps(text, ensure_ascii=False).replace("A", "\\u0041").replace("7", "\\u0037"),
    lambda text: json.dumps(text).replace("K", "\\u004B").replace(" ", "\\u0020"),
]
line = st.tuples(texts, texts, st.sampled_from(writers))


def run_of(lines: list[tuple[str, str, Callable[[str], str]]], run: Path, block: int) -> RunIndex:
    """Write three samples with a prompt and a response, one per line."""
    written = [
        f'{{"step": {at}, "prompt": {write(prompt)}, "response": {write(response)}}}\n'
        for at, (prompt, response, write) in enumerate(lines)
    ]
    (run / "rollout_data_rank_0.jsonl").write_text("".join(written), encoding="utf-8")
    index = RunIndex(run, "run", Reading(), limits=store_limits(block_bytes=block))
    index.rescan()
    while index.read():
        pass
    return index


@given(st.lists(line, min_size=1, max_size=4), st.data(), st.sampled_from([48, 1 << 19]))
def test_blocks_find_what_reading_each_line_finds(
    lines: list[tuple[str, str, Callable[[str], str]]], data: st.DataObject, block: int
) -> None:
    held = [text for prompt, response, _ in lines for text in (prompt, response)]
    # A piece of a text, one that spans two lines, or any text.
    pieces = st.tuples(st.sampled_from(["".join(held), *held]), st.integers(0, 12), st.integers(1, 6))
    sought = data.draw(
        st.lists(
            st.one_of(pieces.map(lambda cut: cut[0][cut[1] : cut[1] + cut[2]]), texts), min_size=1, max_size=3
        )
    )
    with folder() as run:
        index = run_of(lines, run, block)
        snapshot = index.snapshot
        records = [fetch_record(index, snapshot, row).texts for row in snapshot.alive_rows.tolist()]
        for test in (TextPredicate("", "contains", text) for text in sought):
            batches = list(scan(index, snapshot, snapshot.alive_rows, [test]))
            found = sorted(row for batch in batches for row in batch.rows[batch.texts[test]].tolist())
            expected = [
                row
                for row, held in zip(snapshot.alive_rows.tolist(), records, strict=True)
                if test.passes_sample(held)
            ]
            assert found == expected, test.value


@given(
    st.binary(max_size=200), st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=2), st.data()
)
def test_places_are_all_where_a_needle_begins(
    noise: bytes, needles: list[bytes], data: st.DataObject
) -> None:
    parts = st.one_of(st.sampled_from(needles), st.sampled_from([needle[:-1] for needle in needles]))
    block = b"".join(data.draw(st.lists(parts, max_size=30))) + noise
    needles, folded = list(map(fold_bytes, needles)), fold_bytes(block)
    found = ByteSearch(needles).positions(np.frombuffer(bytearray(block), np.uint8))
    expected = [at for needle in needles for at in range(len(block)) if folded.startswith(needle, at)]
    assert sorted(found.tolist()) == sorted(expected)


odd = st.one_of(
    texts, st.none(), st.integers(), st.lists(st.one_of(texts, st.just({"content": "c"})), max_size=2)
)


@given(samples(), st.dictionaries(st.sampled_from(["messages", "prompt", *schema.TEXTS]), odd))
def test_texts_alone_are_those_of_the_whole_sample(row: dict[str, object], more: dict[str, object]) -> None:
    written = json.dumps(more | row).encode()
    whole = build_record(0, parse(written).items(), "", full=True)
    assert build_texts(parse(written).items()) == whole.texts
