"""The last line of a file, whose newline is missing: read if it is whole, and never counted twice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from rlpanel.errors import SourceDamaged, SourceUnready
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.compressed import CompressedFile
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Chunk
from tests.factories import append, line

LINES = [line(1, index=index, tokens=False) for index in range(4)]
LAST = LINES[3].rstrip(b"\n")
Make = Callable[[], JsonlFile]


class Log:
    """A log that grows, plain or compressed in frames."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, plain: bytes) -> None:
        """Append plain bytes, as a frame if the log is compressed."""
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(self.path.suffix, bytes)
        append(self.path, pack(plain))

    def reader(self) -> JsonlFile:
        kind = JsonlFile if self.path.suffix == ".jsonl" else CompressedFile
        return kind(str(self.path), self.path.name, Native())


@pytest.fixture(params=[".jsonl", ".jsonl.gz", ".jsonl.zst"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(tmp_path / f"rollout{request.param}")


def taken(chunks: Iterator[Chunk]) -> list[int]:
    """Return the offsets of the samples in some chunks."""
    return [locator.offset for chunk in chunks for locator in chunk.locators]


def read(file: JsonlFile) -> list[int]:
    """Read all complete lines, and return the offsets of their samples."""
    offsets: list[int] = []
    while True:
        chunks = list(file.poll(1 << 20))
        offsets += taken(iter(chunks))
        if not chunks[-1].more:
            return offsets


STARTS = [sum(map(len, LINES[:at])) for at in range(5)]


def test_a_whole_last_line_is_read_when_asked_for(log: Log) -> None:
    log.add(b"".join(LINES[:3]) + LAST)
    file = log.reader()
    assert read(file) == STARTS[:3]
    assert taken(file.read_end()) == STARTS[3:4]
    assert (file.lines, file.tail.offset) == (4, STARTS[4] - 1)
    assert read(file) == []


def test_its_newline_is_passed_over_when_it_is_written(log: Log) -> None:
    log.add(b"".join(LINES[:3]) + LAST)
    file = log.reader()
    read(file), list(file.read_end())
    log.add(b"\n")
    assert (read(file), file.generation, file.lines) == ([], 0, 4)
    log.add(LINES[0])
    assert (read(file), file.generation, file.lines) == (STARTS[4:], 0, 5)


def test_a_newline_and_the_next_lines_may_come_together(log: Log) -> None:
    log.add(LAST)
    file = log.reader()
    read(file), list(file.read_end())
    log.add(b"\n" + LINES[0] + LAST)
    assert read(file) == [len(LAST) + 1]
    assert taken(file.read_end()) == [len(LAST) + 1 + len(LINES[0])]
    assert (file.generation, file.lines) == (0, 3)


def test_a_line_that_goes_on_is_read_again_as_a_whole(log: Log) -> None:
    log.add(LINES[0] + LAST)
    file = log.reader()
    read(file), list(file.read_end())
    log.add(b"  \n" + LINES[1])
    assert read(file) == [0, len(LINES[0]), len(LINES[0]) + len(LAST) + 3]
    assert (file.generation, file.lines) == (1, 3)


@pytest.mark.parametrize("more", [b"", b"\n", b"\n" + LINES[1]], ids=["same", "newline", "lines"])
def test_a_position_after_such_a_line_can_be_saved(log: Log, more: bytes) -> None:
    log.add(LINES[0] + LAST)
    file = log.reader()
    read(file), list(file.read_end())
    mark = file.mark(0)
    assert mark is not None
    saved = type(mark).from_json(json.loads(json.dumps(mark.plain())))
    if more:
        log.add(more)
    again = log.reader()
    assert again.resume(saved)
    expected = [len(LINES[0]) + len(LAST) + 1] if len(more) > 1 else []
    assert (read(again), again.lines) == (expected, 2 + len(expected))


def test_a_saved_position_is_not_used_if_the_line_goes_on(log: Log) -> None:
    log.add(LINES[0] + LAST)
    file = log.reader()
    read(file), list(file.read_end())
    mark = file.mark(0)
    assert mark is not None
    log.add(b" \n")
    again = log.reader()
    found = [*(read(again) if again.resume(mark) else []), *read(again)]
    assert found == [0, len(LINES[0])]


def test_half_a_line_waits_and_its_length_is_told(log: Log) -> None:
    log.add(LINES[0] + LAST[:40])
    file = log.reader()
    read(file)
    with pytest.raises(SourceUnready, match=r"^the last line is incomplete \(40 bytes\)$"):
        list(file.read_end())
    log.add(LAST[40:] + b"\n")
    assert (read(file), file.lines) == ([len(LINES[0])], 2)


def test_zero_bytes_at_the_end_are_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "rollout.jsonl")
    log.add(LINES[0] + bytes(4096))
    file = log.reader()
    read(file)
    with pytest.raises(SourceUnready, match="it ends with 4,096 zero bytes"):
        list(file.read_end())


def test_a_line_that_grows_meanwhile_is_not_taken(log: Log) -> None:
    log.add(LAST)
    file = log.reader()
    read(file)
    log.add(b"\n")
    (chunk,) = file.read_end()
    assert (len(chunk), chunk.more) == (0, True)
    assert read(file) == [0]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_a_compressed_file_that_is_cut_off_keeps_its_lines(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    whole = pack(b"".join(LINES * 40))
    suffix = ".gz" if pack is gzip.compress else ".zst"
    path = tmp_path / f"rollout.jsonl{suffix}"
    path.write_bytes(pack(LINES[0]) + whole[: len(whole) * 2 // 3])
    file = CompressedFile(str(path), path.name, Native())
    assert read(file)
    with pytest.raises(SourceDamaged, match="is cut off"):
        list(file.read_end())


def chunk_of(tmp_path: Path, content: bytes) -> Chunk:
    (tmp_path / "rollout.jsonl").write_bytes(content)
    (chunk,) = Log(tmp_path / "rollout.jsonl").reader().poll(1 << 20)
    return chunk


def test_a_line_between_zero_bytes_is_read_and_they_are_counted(tmp_path: Path) -> None:
    hole = bytes(100)
    chunk = chunk_of(tmp_path, LINES[0] + hole + LAST + hole + b"\n" + LINES[1])
    start = len(LINES[0])
    assert [locator.offset for locator in chunk.locators] == [0, start + 100, start + 200 + len(LAST) + 1]
    assert [locator.line for locator in chunk.locators] == [1, 2, 3]
    assert (chunk.bad, chunk.hole) == ([], (200, start))
    found = Log(tmp_path / "rollout.jsonl").reader().fetch(chunk.locators[1])
    assert found.texts["response"] == json.loads(LAST)["response"]


def test_a_line_that_zero_bytes_cut_is_bad_and_the_reason_names_them(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, LINES[0] + LAST[:30] + bytes(50) + b"\n" + bytes(7) + b"\n")
    assert [bad.reason.split(";")[0] for bad in chunk.bad] == [
        "50 zero bytes in the line",
        "7 zero bytes in the line",
    ]
    assert (chunk.good_lines, chunk.hole.bytes) == (1, 57)
