"""A tail returns complete lines, each once, whatever the writer does to the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlpanel.sources.files.file_access import Readable
from rlpanel.sources.readers.tail import Tail
from tests.factories import append

BUDGET = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rank.jsonl"


def lines(tail: Tail, budget: int) -> list[bytes]:
    """The lines of one look."""
    return list(tail.read(budget).lines())


def replace(path: Path, data: bytes) -> None:
    """Put a new file in the place of the old one, as writers do that want to be atomic."""
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").replace(path)


def test_whole_lines_come_without_their_newlines(path: Path) -> None:
    append(path, b"one\n", b"two\n")
    assert lines(Tail(str(path)), BUDGET) == [b"one", b"two"]


def test_the_half_line_at_the_end_waits_for_its_newline(path: Path) -> None:
    tail = Tail(str(path))
    append(path, b"one\ntw")
    first = lines(tail, BUDGET)
    append(path, b"o\n")
    assert (first, lines(tail, BUDGET)) == ([b"one"], [b"two"])


def test_a_block_tells_where_it_starts(path: Path) -> None:
    tail = Tail(str(path))
    append(path, b"one\n")
    tail.read(BUDGET)
    append(path, b"two\nthree\n")
    block = tail.read(BUDGET)
    assert (block.offset, block.length) == (4, 10)


def test_line_separators_inside_a_text_end_no_line(path: Path) -> None:
    line = "a\u2028b\u0085c\x0bd\x0ce\rf".encode()
    append(path, line + b"\n")
    assert lines(Tail(str(path)), BUDGET) == [line]


def test_one_look_takes_about_a_budget_and_says_that_more_waits(path: Path) -> None:
    append(path, b"0123\n" * 10)
    block = Tail(str(path)).read(12)
    assert (list(block.lines()), block.more) == ([b"0123", b"0123"], True)


def test_a_line_longer_than_the_budget_comes_whole_after_some_looks(path: Path) -> None:
    append(path, b"x" * 100 + b"\nend\n")
    tail = Tail(str(path))
    found = [line for _ in range(20) for line in tail.read(16).lines()]
    assert found == [b"x" * 100, b"end"]


@pytest.mark.parametrize("budget", [8, 1 << 20])
def test_a_line_too_long_to_hold_is_stepped_over_with_its_length(path: Path, budget: int) -> None:
    append(path, b"a\n" + b"x" * 100 + b"\nend\n")
    tail = Tail(str(path), line_bytes=20)
    blocks = [tail.read(budget) for _ in range(30)]
    found = [
        len(line)
        for block in blocks
        for line in [*block.lines(), *([b"x" * block.skipped] * (block.skipped > 0))]
    ]
    assert found == [1, 100, 3]


def test_nothing_new_means_nothing_to_read(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    assert (tail.changed(), lines(tail, BUDGET)) == (False, [])


def test_a_file_that_shrank_is_read_from_its_start_in_a_new_generation(path: Path) -> None:
    append(path, b"one\ntwo\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(b"new\n")
    block = tail.read(BUDGET)
    assert (block.generation, block.offset, list(block.lines())) == (1, 0, [b"new"])


def test_a_file_replaced_by_rename_is_read_from_its_start_even_if_it_is_longer(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    replace(path, b"one\ntwo\nthree\n")
    block = tail.read(BUDGET)
    assert (block.generation, list(block.lines())) == (1, [b"one", b"two", b"three"])


def test_a_file_rewritten_in_place_and_grown_shows_by_its_head(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(b"eins\nzwei\ndrei\n")
    assert lines(tail, BUDGET) == [b"eins", b"zwei", b"drei"]


def test_a_file_rewritten_behind_its_head_shows_just_before_the_offset(path: Path) -> None:
    head = b"h" * 2000 + b"\n"
    append(path, head, b"old\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(head + b"new\nmore\n")
    assert tail.read(BUDGET).generation == 1


def test_a_change_a_little_before_the_offset_shows_even_after_small_looks(path: Path) -> None:
    head = b"h" * 2000 + b"\n"
    tail = Tail(str(path))
    for part in (head, b"old\n", b"end\n"):
        append(path, part)
        tail.read(BUDGET)
    path.write_bytes(head + b"new\nend\nmore\n")
    assert tail.read(BUDGET).generation == 1


def test_a_change_in_the_head_alone_shows(path: Path) -> None:
    append(path, b"old\n", b"x" * 2000 + b"\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(b"new\n" + b"x" * 2000 + b"\nmore\n")
    assert tail.read(BUDGET).generation == 1


def test_a_rewrite_of_the_same_size_and_mtime_is_noticed(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    status = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (tail.changed(), lines(tail, BUDGET)) == (True, [b"two"])


def test_a_half_line_that_the_writer_takes_back_costs_no_new_generation(path: Path) -> None:
    append(path, b"one\nhalf a li")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(b"one\n2\nthree")
    block = tail.read(BUDGET)
    assert (block.generation, list(block.lines())) == (0, [b"2"])


def test_a_line_that_ends_where_only_half_a_line_was_is_found(path: Path) -> None:
    append(path, b"aaaa")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.write_bytes(b"b\ncccccc")
    assert lines(tail, BUDGET) == [b"b"]


def test_the_signatures_hold_over_many_small_looks(path: Path) -> None:
    tail = Tail(str(path))
    for number in range(400):
        append(path, b"%d\n" % number)
        tail.read(BUDGET)
    os.utime(path)
    assert (tail.changed(), tail.read(BUDGET).generation) == (True, 0)


def test_a_file_that_is_not_there_is_an_error_and_a_change(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    path.unlink()
    assert tail.changed()
    with pytest.raises(FileNotFoundError):
        tail.read(BUDGET)


def test_after_a_reset_the_same_bytes_come_again(path: Path) -> None:
    append(path, b"one\n")
    tail = Tail(str(path))
    tail.read(BUDGET)
    tail.reset()
    block = tail.read(BUDGET)
    assert (block.generation, list(block.lines())) == (1, [b"one"])


def test_it_knows_when_the_file_was_written(path: Path) -> None:
    append(path, b"one\n")
    os.utime(path, (1000.0, 2000.0))
    tail = Tail(str(path))
    tail.read(BUDGET)
    assert tail.modified == 2000.0


def test_reading_begins_anywhere_behind_a_newline(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = Tail(str(path))
    assert tail.start_at(4)
    block = tail.read(100)
    assert (block.offset, list(block.lines())) == (4, [b"two", b"three"])


@pytest.mark.parametrize("offset", [5, 100], ids=["within a line", "behind the end"])
def test_a_place_without_a_newline_is_that_of_another_file(path: Path, offset: int) -> None:
    """It was replaced since the newline was found there; reading begins at its beginning."""
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = Tail(str(path))
    assert not tail.start_at(offset)
    block = tail.read(100)
    assert (block.generation, block.offset, list(block.lines())) == (1, 0, [b"one", b"two", b"three"])


class SwappedWhileRead:
    """A file that is rewritten in place after its first stat and before the first read behind the offset."""

    def __init__(self, file: Readable, path: Path, successor: bytes, offset: int) -> None:
        self._file, self._path, self._successor, self._offset = file, path, successor, offset

    def __enter__(self) -> SwappedWhileRead:
        self._file.__enter__()  # type: ignore[attr-defined]
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)  # type: ignore[attr-defined]

    def stat(self) -> os.stat_result:
        return self._file.stat()

    def read(self, size: int, offset: int) -> bytes:
        if offset == self._offset and self._successor:
            self._path.write_bytes(self._successor)
            self._successor = b""
        return self._file.read(size, offset)


def test_bytes_of_a_successor_are_not_handed_out_as_those_of_the_file_before(path: Path) -> None:
    tail = Tail(str(path))
    append(path, b"one\n")
    before = tail.read(BUDGET)
    append(path, b"two\n")
    tail._file = SwappedWhileRead(tail._file, path, b"new\nmore\n", tail.offset)  # type: ignore[assignment]
    swapped, after = tail.read(BUDGET), tail.read(BUDGET)
    assert (list(swapped.lines()), swapped.more) == ([], True)
    assert (list(after.lines()), after.generation) == ([b"new", b"more"], before.generation + 1)
