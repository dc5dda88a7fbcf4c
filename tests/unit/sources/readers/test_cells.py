"""CSV and TSV: cells with newlines and quotes, numbers and missing cells, files that grow or end early."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.errors import SourceChanged, SourceUnready
from rlpanel.settings import Reading
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.cells import CellsFile, CompressedCellsFile
from rlpanel.sources.readers.containers import first_lines
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append

HEADER = ["step", "prompt", "response", "reward"]


def rows_of(*rows: Sequence[Any], newline: str = "\r\n") -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator=newline).writerows(rows)
    return text.getvalue().encode()


def reader(path: Path, line_bytes: int = 64 << 20) -> JsonlFile:
    kind = CompressedCellsFile if path.suffix == ".gz" else CellsFile
    return kind(str(path), path.name, Native(), line_bytes)


def read(file: JsonlFile, budget: int = 1 << 20) -> list[tuple[int, str]]:
    """Read all complete rows, and return step and response of each."""
    found = []
    while True:
        chunks = list(file.poll(budget))
        for chunk in chunks:
            for locator in chunk.locators:
                record = file.fetch(locator)
                found.append((record.step, record.texts.get("response", "")))
        if not chunks[-1].more:
            return found


def test_a_cell_is_typed_by_itself(tmp_path: Path) -> None:
    header = [*HEADER, "note", "passed", "seed", ""]
    rows = [
        [1, "1_2", "4.50", "1_2", '{"a": [1]}', "True", 2**60 + 1, 0],
        [2, "", "007", "", "", "False", "", 1],
        ["3", "p", "1e5", "-2.5e-1", "007", "nan", "-12", 2],
    ]
    (tmp_path / "log.csv").write_bytes(rows_of(header, *rows))
    found, _ = first_lines(str(tmp_path / "log.csv"))
    assert [list(json.loads(line, parse_float=str, parse_constant=str).values()) for line in found] == [
        [1, "1_2", "4.50", "1_2", {"a": [1]}, True, 2**60 + 1],
        [2, None, "007", None, None, False, None],
        [3, "p", "1e5", "-2.5e-1", "007", "NaN", -12],
    ]
    assert [json.loads(line)["reward"] for line in found] == ["1_2", None, -0.25]


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_newlines_and_quotes_in_cells_are_theirs_wherever_a_block_ends(
    tmp_path: Path, size: int, suffix: str
) -> None:
    random_ = random.Random(size)
    texts = ["".join(random_.choices('ab,"\n\r;é', k=random_.randint(0, 12))) for _ in range(60)]
    content = rows_of(HEADER, *([at, "p", text, 0.5] for at, text in enumerate(texts)))
    path = tmp_path / f"log{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    file = reader(path)
    assert read(file, size) == list(enumerate(texts))
    assert file.tail.partial == 0


def test_a_growing_file_is_followed_by_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    content = rows_of(HEADER, [1, "p", 'a\nb "c"', 0.5], [2, "p", "d", 1], newline="\n")
    file, seen = None, []
    for end in range(1, len(content) + 1):
        append(path, content[end - 1 : end])
        file = file or reader(path)
        seen += read(file)
    assert seen == [(1, 'a\nb "c"'), (2, "d")]
    assert file is not None
    assert (file.generation, file.lines) == (0, 2)


def test_the_run_follows_a_growing_file(tmp_path: Path) -> None:
    path, index, counts = tmp_path / "log.csv", RunIndex(tmp_path, "run"), []
    rows = [[at, "p", f"r\n{at}", at] for at in range(3)]
    path.write_bytes(rows_of(HEADER, rows[0]))
    for row in (None, *rows[1:]):
        if row is not None:
            with path.open("ab") as file:
                file.write(rows_of(row))
        index.rescan()
        index.read()
        counts.append(index.snapshot.samples)
    assert (counts, index.snapshot.bad_count) == ([1, 2, 3], 0)


def test_a_last_row_without_a_newline_is_read_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(rows_of(HEADER, [1, "p", "a", 0.5], [2, "p", "b\nc", 1]).rstrip())
    file = reader(path)
    assert read(file) == [(1, "a")]
    (chunk,) = file.read_end()
    assert [file.fetch(locator).texts["response"] for locator in chunk.locators] == ["b\nc"]
    with path.open("ab") as log:
        log.write(b"\n" + rows_of([3, "p", "d", 1]))
    assert read(file) == [(3, "d")]


@pytest.mark.parametrize("end", [b'2,"p', b"2,p", b'2,p,"b\nc\nd'])
def test_half_a_row_is_named(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(rows_of(HEADER, [1, "p", "a", 0.5]) + end)
    file = reader(path)
    assert read(file) == [(1, "a")]
    with pytest.raises(SourceUnready, match=rf"the last line is incomplete \({len(end)} bytes\)"):
        list(file.read_end())


def test_a_row_with_other_cells_or_a_wrong_text_is_bad(tmp_path: Path) -> None:
    content = rows_of(HEADER, [1, "p", "a", 0.5], [1, "p"], [1, "p", "a", 0, 0]) + b"1,p,\xff,0\n\n"
    (tmp_path / "log.csv").write_bytes(content + rows_of([2, "p", "b", 1]))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["reason"].tolist() == [
            "the row has 2 cells, and the header 4",
            "the row has 5 cells, and the header 4",
            "the row holds invalid UTF-8",
        ]
        assert (run.stats().rows, run.stats().blank_lines) == (2, 1)


def test_a_row_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(rows_of(HEADER, [1, "p", "a", 0.5], [2, "p", "x" * 9000, 1], [3, "p", "c", 1]))
    index = RunIndex(tmp_path, "run", Reading(line_bytes=5000))
    index.rescan()
    index.read()
    assert index.snapshot.samples == 2
    assert "the limit is 5,000" in index.snapshot.bad_lines[0].reason


def test_a_quote_that_is_never_closed_costs_no_row_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    content = rows_of(HEADER, [1, "p", "a", 0.5]) + b'2,p,"b,1\n' + rows_of([3, "p", "c", 1])
    path.write_bytes(content)
    file = reader(path)
    assert read(file) == [(1, "a")]
    with pytest.raises(SourceUnready, match="the last line is incomplete"):
        list(file.read_end())


def test_a_quote_inside_of_a_cell_is_a_character(tmp_path: Path) -> None:
    content = b'step,prompt,response,reward\n1,p,5" pipe,0.5\n2,p,6" pipe,1\n3,p,c,1\n'
    (tmp_path / "log.csv").write_bytes(content)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples(text=True)["response"].tolist() == ['5" pipe', '6" pipe', "c"]


def test_a_saved_position_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(rows_of(HEADER, [1, "p", "a\nb", 0.5]))
    file = reader(path)
    read(file)
    mark = file.mark(0)
    assert mark is not None
    with path.open("ab") as log:
        log.write(rows_of([2, "p", "c", 1]))
    again = reader(path)
    assert again.resume(ReadPosition.from_json(json.loads(json.dumps(mark.plain()))))
    assert (read(again), again.lines) == ([(2, "c")], 2)


def test_a_rewritten_file_has_another_header(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(rows_of(HEADER, [1, "p", "a", 0.5]))
    file = reader(path)
    (chunk,) = file.poll(1 << 20)
    path.write_bytes(rows_of(["response", "prompt", "step"], ["b", "q", 5]))
    assert read(file) == [(5, "b")]
    with pytest.raises(SourceChanged):
        file.fetch(chunk.locators[0])


@pytest.mark.parametrize(
    "content", [b"loss\n0.5\n", b"1,2\n3,4\n", b"a,a\n1,2\n", b"time,loss\n0,1.5\n", b"step,prompt"]
)
def test_other_tables_are_no_rollouts(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.csv").write_bytes(content)
    assert rlpanel.discover(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("scores", "[0.5, 1]", [0.5, 1]),
        ("scores", "[1.  0.5\n 0.25]", [1.0, 0.5, 0.25]),
        ("result", "{'ok': True, 'why': None}", {"ok": True, "why": None}),
        ("responses", "['a', 'b']", ["a", "b"]),
        ("responses", "['a' 'b']", ["a", "b"]),  # numpy's print; Python would join the two
        ("response", "['a', 'b']", "['a', 'b']"),
        ("response", '{"answer": 4}', '{"answer": 4}'),
        ("messages", "[{'role': 'user', 'content': 'a'}]", [{"role": "user", "content": "a"}]),
        ("note", "[not a list]", "[not a list]"),
        ("note", "[]", "[]"),
        ("greedy_generation", "2.50", "2.50"),
        ("n_generations", "3", 3),
    ],
)
def test_lists_and_objects_in_cells_are_read_unless_the_column_holds_one_text(
    tmp_path: Path, name: str, cell: str, value: Any
) -> None:
    (tmp_path / "log.csv").write_bytes(rows_of(["at", name], [0, cell], [1, "x"]))
    found, _ = first_lines(str(tmp_path / "log.csv"))
    assert json.loads(found[0])[name] == value


@pytest.mark.parametrize(
    ("first", "names"),
    [
        (["7", "a text", "0.5"], ["column_1", "column_2", "column_3"]),
        (["0", "1", "2"], ["0", "1", "2"]),  # pandas counts columns that have no names
        (["id", "text", "score"], ["id", "text", "score"]),
    ],
)
def test_a_number_above_numbers_shows_that_a_table_has_no_names(
    tmp_path: Path, first: list[str], names: list[str]
) -> None:
    rows = [first, ["8", "b", "1.0"], ["9", "c", "0.0"]]
    (tmp_path / "log.csv").write_text("".join(f"{','.join(row)}\n" for row in rows))
    found, _ = first_lines(str(tmp_path / "log.csv"))
    assert [*json.loads(found[0])] == names
    assert len(found) == (3 if names[0] == "column_1" else 2)


def test_a_list_of_texts_beside_as_many_numbers_is_the_samples_of_a_row(tmp_path: Path) -> None:
    rows = [["p", "['a', 'b']", "[1, 0]"], ["q", "['c', 'd']", "[0, 0, 1]"]]
    (tmp_path / "log.csv").write_bytes(rows_of(["prompt", "response", "scores"], *rows))
    found, _ = first_lines(str(tmp_path / "log.csv"))
    assert [json.loads(line)["response"] for line in found] == [["a", "b"], "['c', 'd']"]
