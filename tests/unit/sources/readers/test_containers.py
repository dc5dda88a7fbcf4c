"""The same samples in every container: lines, arrays, tables, columns, UTF-16, compressed, Arrow."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard

import rlpanel
from rlpanel.errors import SourceChanged
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.readers.containers import first_lines
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import scan

SAMPLES: list[dict[str, Any]] = [
    {"step": 1, "prompt": "2 + 2?", "response": 'four, ["4"]', "reward": 1.0, "seed": 7},
    {"step": 1, "prompt": "2 + 2?", "response": "five\n{", "reward": 0.0, "seed": 8},
    {"step": 2, "prompt": "2 + 3?", "response": "“fünf” 🙂 \\", "reward": 0.25, "seed": 9},
]
NAMES = list(SAMPLES[0])
ROWS = [list(sample.values()) for sample in SAMPLES]


def lines(samples: Iterable[Any] = SAMPLES) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in samples)


def document(content: Any, indent: int | None = 2, *, ascii_only: bool = False) -> bytes:
    return json.dumps(content, indent=indent, ensure_ascii=ascii_only).encode()


def csv_of(delimiter: str) -> bytes:
    rows = [NAMES, *ROWS]
    quoted = (delimiter.join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in rows)
    return "\r\n".join(quoted).encode() + b"\r\n"


def arrow(make: Callable[..., Any]) -> bytes:
    table, sink = pa.Table.from_pylist(SAMPLES), io.BytesIO()
    with make(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return sink.getvalue()


def utf16(content: bytes, order: str = "le") -> bytes:
    text = content.decode().replace("\n", "\r\n")
    return ("\ufeff" + text).encode(f"utf-16-{order}")


ARRAY = document(SAMPLES)
COLUMNS = {name: [sample[name] for sample in SAMPLES] for name in NAMES}
FILES: dict[str, tuple[str, bytes]] = {
    "lines": ("x.jsonl", lines()),
    "ndjson": ("x.ndjson", lines()),
    "lines in .json": ("x.json", lines()),
    "lines in .json without a newline": ("x.json", lines().rstrip()),
    "lines with a mark": ("x.jsonl", b"\xef\xbb\xbf" + lines()),
    "array": ("x.json", document(SAMPLES)),
    "array in a line": ("x.json", document(SAMPLES, None, ascii_only=True)),
    "array with a mark": ("x.json", b"\xef\xbb\xbf\n" + document(SAMPLES)),
    "array in .jsonl": ("x.jsonl", document(SAMPLES, None) + b"\n"),
    "indented array in .jsonl": ("x.jsonl", document(SAMPLES)),
    "samples": ("x.json", document({"model": "m", "config": {"lr": [1, 2]}, "samples": SAMPLES, "n": 3})),
    "list of any key": ("x.json", document({"my_runs": SAMPLES})),
    "list inside": ("x.json", document({"output": {"eval": {"results": SAMPLES}}, "time": 3.5})),
    "documents that follow one another": ("x.jsonl", b"\n".join(map(document, SAMPLES)) + b"\n"),
    "documents after commas": ("x.json", b",\n".join(map(document, SAMPLES))),
    "table": ("x.table.json", document({"columns": NAMES, "data": ROWS, "ncols": 5, "nrows": 3}, None)),
    "split": ("x.json", document({"columns": NAMES, "index": [0, 1, 2], "data": ROWS})),
    "columns": ("x.json", document(COLUMNS)),
    "columns in a line": ("x.jsonl", document(COLUMNS, None) + b"\n"),
    "trajectories": ("x.traj", document({"trajectories": SAMPLES})),
    "utf-16": ("x.jsonl", utf16(lines())),
    "utf-16, big end first": ("x.ndjson", utf16(lines(), "be")),
    "utf-16 array": ("x.json", utf16(document(SAMPLES))),
    "utf-16 lines in .json": ("x.json", utf16(lines())),
    "gzipped array": ("x.json.gz", gzip.compress(document(SAMPLES))),
    "array in frames": ("x.json.zst", b"".join(map(zstandard.compress, (ARRAY[:70], ARRAY[70:])))),
    "gzipped lines": ("x.ndjson.gz", gzip.compress(lines())),
    "lines in .zst": ("rollouts.zst", zstandard.compress(lines())),
    "csv": ("x.csv", csv_of(",")),
    "csv of semicolons": ("x.csv", csv_of(";")),
    "tsv": ("x.tsv", csv_of("\t")),
    "gzipped csv": ("x.csv.gz", gzip.compress(csv_of(","))),
    "arrow": ("x.arrow", arrow(pa.ipc.new_stream)),
    "feather": ("x.feather", arrow(pa.ipc.new_file)),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_samples_are_the_same_in_every_container(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "package.json").write_bytes(document({"name": "x", "files": [{"a": 1}]}))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples(text=True)
        again = [run.sample(uid) for uid in frame["uid"]]
        problems, is_right = run.snapshot.problems, run.errors.empty
    assert (problems, is_right) == ((), True)
    assert frame[NAMES].values.tolist() == ROWS
    assert [(each.step, each.prompt, each.response, each.reward) for each in again] == [
        tuple(row[:4]) for row in ROWS
    ]


@pytest.mark.parametrize("kind", ["array", "table", "utf-16", "array in frames", "csv", "utf-16 array"])
def test_the_text_search_finds_samples_of_every_container(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content)
    index = RunIndex(tmp_path, "run")
    look(index)
    test = TextPredicate("response", "contains", "fünf")
    batches = list(scan(index, index.snapshot, index.snapshot.alive_rows, [test]))
    assert [found for batch in batches for found in batch.texts[test].tolist()] == [False, False, True]


@pytest.mark.parametrize("kind", FILES)
def test_the_first_records_are_given_as_objects(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content)
    records = [json.loads(line.decode("utf-8-sig")) for line in first_lines(str(tmp_path / name))[0]]
    assert records == ([COLUMNS] if kind.startswith("columns") else SAMPLES)


def look(index: RunIndex) -> list[tuple[int, float]]:
    """Step and reward of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    return [] if not len(frame) else list(zip(frame["step"].tolist(), frame["reward"].tolist(), strict=True))


WANTED = [(1, 1.0), (1, 0.0), (2, 0.25)]


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_a_rewritten_array_replaces_its_rows_and_keeps_them_until_it_is_whole(
    tmp_path: Path, name: str
) -> None:
    path, index = tmp_path / name, RunIndex(tmp_path, "run")
    path.write_bytes(document(SAMPLES))
    before = look(index)
    former = index.snapshot.locator(0)
    path.write_bytes(document([*SAMPLES, *SAMPLES])[:-30])
    half = look(index)
    (problem,) = index.snapshot.problems
    path.write_bytes(document([{**SAMPLES[0], "prompt": "other"}, *SAMPLES]))
    after = look(index)
    assert (before, half, sorted(after)) == (WANTED, WANTED, sorted([(1, 1.0), *WANTED]))
    assert problem.startswith(f"{name}: is incomplete or damaged")
    assert index.snapshot.problems == ()
    with pytest.raises(SourceChanged):
        index.reader(name).fetch(former)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", document(SAMPLES * 40)),
        ("x.json.gz", gzip.compress(document(SAMPLES * 400))),
        ("x.json.zst", zstandard.compress(document(SAMPLES * 40))),
        ("x.traj", b"\n".join(map(document, SAMPLES * 40))),
    ],
)
def test_of_a_document_that_was_cut_off_the_samples_before_are_read_and_it_is_named(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content[: len(content) * 2 // 3])
    (tmp_path / "whole.json").write_bytes(document(SAMPLES))
    index = RunIndex(tmp_path, "run")
    rows = look(index)
    index.read_last_lines()
    (unread,) = index.snapshot.unread
    # zstd returns nothing of a block that is incomplete.
    assert len(rows) > 50 or name.endswith("zst")
    assert unread.file == name
    assert "incomplete" in unread.reason or "cut off" in unread.reason


def test_lines_that_are_added_to_a_json_file_are_followed(tmp_path: Path) -> None:
    path, index = tmp_path / "log.json", RunIndex(tmp_path, "run")
    path.write_bytes(lines(SAMPLES[:1]))
    counts = [look(index)]
    for sample in SAMPLES[1:]:
        with path.open("ab") as file:
            file.write(lines([sample]))
        counts.append(look(index))
    assert counts == [WANTED[:1], WANTED[:2], WANTED]


def test_lines_of_utf16_are_followed_and_a_half_character_waits(tmp_path: Path) -> None:
    path, index, content = tmp_path / "log.jsonl", RunIndex(tmp_path, "run"), utf16(lines())
    first = content.index("\n".encode("utf-16-le")) + 2
    counts = []
    for end in (first, first + 31, len(content)):
        path.write_bytes(content[:end])
        counts.append(look(index))
    assert counts == [WANTED[:1], WANTED[:1], WANTED]


def test_a_bad_item_hides_no_good_one(tmp_path: Path) -> None:
    good = [json.dumps(sample) for sample in SAMPLES]
    items = [good[0], "null", "[1]", '{"step": 1}', good[1], '{"step": "x", "prompt": "p"}', good[2]]
    (tmp_path / "x.json").write_text(f"[{', '.join(items)}]")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["reward"].tolist() == [1.0, 0.0, 0.25]
        assert run.errors["line"].tolist() == [2, 3, 4, 6]


def test_a_row_of_a_table_with_another_number_of_values_is_bad(tmp_path: Path) -> None:
    rows = [*ROWS, ROWS[0][:-1]]
    (tmp_path / "x.json").write_bytes(document({"columns": NAMES, "data": rows}))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["reason"].tolist() == ["the row has 4 values, and the table 5 columns"]
        assert run.stats().rows == 3


def test_a_sample_with_a_list_inside_is_no_list_of_samples(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}]
    sample = {"step": 3, "messages": turns, "reward": 1.0, "calls": [{"name": "a"}]}
    (tmp_path / "x.json").write_bytes(document(sample))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples(text=True)[["step", "response"]].values.tolist() == [[3, "r"]]


def test_one_document_per_file_is_one_sample_each(tmp_path: Path) -> None:
    for number, sample in enumerate(SAMPLES):
        (tmp_path / f"sample_{number}.json").write_bytes(document(sample))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert (sorted(run.samples()["reward"]), run.stats().files) == ([0.0, 0.25, 1.0], 3)


# -- bounds ------------------------------------------------------------------------------------------


def test_a_document_of_zeros_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    filler = b", ".join([document(SAMPLES[0], None), b'{"z": "' + bytes(48) + b"0" * (60 << 20) + b'"}'])
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(b"[" + filler + b"]"))
    index = RunIndex(tmp_path, "run", Reading(line_bytes=1 << 20))
    look(index)
    (unread,) = index.snapshot.unread
    assert "-fold when decompressed, unlike any log" in unread.reason


def test_a_long_item_is_passed_over(tmp_path: Path) -> None:
    long = {**SAMPLES[0], "response": "x" * 5000}
    (tmp_path / "x.json").write_bytes(document([SAMPLES[0], long, SAMPLES[1]]))
    index = RunIndex(tmp_path, "run", Reading(line_bytes=4000))
    assert look(index) == WANTED[:2]
    (bad,) = index.snapshot.bad_lines
    assert (bad.line, bad.reason.partition(";")[2]) == (2, " the limit is 4,000")


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_deep_brackets_are_a_reason(tmp_path: Path, name: str) -> None:
    deep = b'{"step": 1, "prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    content = (
        lines() + deep + b"\n" if name == "x.jsonl" else b"[" + document(SAMPLES)[1:-1] + b"," + deep + b"]"
    )
    (tmp_path / name).write_bytes(content)
    index = RunIndex(tmp_path, "run")
    assert look(index) == WANTED
    (bad,) = index.snapshot.bad_lines
    assert (bad.line, bad.reason) == (4, "not valid JSON: nested too deeply")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 4096, b"[", b"{", b"[[[[", b"]", b'"', b'{"a": ', b'[{"a": 1}', b"[]", b"{}", b"null",
        b"1", b"\xff\xfe", b"\xff\xfe{", b"[" * 200_000, b'{"a":' * 50_000,
        b'{"columns": ["a"], "data": [1]}',
        b'{"columns": ["a", "a"], "data": [[1, 2]]}', b"\x1f\x8b\x08", b'{"data": {"rows": [[]]}}',
        b"PK\x03\x04",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "name", ["x.json", "x.traj", "x.jsonl", "x.csv", "x.tsv", "x.arrow", "x.json.gz", "x.zst", "x.eval"]
)
def test_no_content_stops_a_search(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x.jsonl").write_bytes(lines())
    directory = Directory(tmp_path, Reading())
    assert [info.name for info in directory.runs() if info.name != "."] == ["run"]
    directory.find_files(tmp_path)
