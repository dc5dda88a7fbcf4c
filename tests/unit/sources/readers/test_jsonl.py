"""A file of lines becomes records and bad lines, and a sample can be read by its position."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlpanel.errors import SourceChanged
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import BadLine, Chunk, Record
from tests.factories import append, line, sample

BUDGET = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollout_data_rank_0.jsonl"


def open_file(path: Path, **options: Any) -> JsonlFile:
    return JsonlFile(str(path), path.name, Native(), **options)


def poll(path: Path, **options: Any) -> Chunk:
    return taken(open_file(path, **options))


def taken(file: JsonlFile) -> Chunk:
    """All chunks of one look as one."""
    whole = Chunk()
    for chunk in file.poll(BUDGET):
        for name in ("raw_locators", "parts", "bad"):
            getattr(whole, name).extend(getattr(chunk, name))
        whole.good_lines += chunk.good_lines
        whole.blank_lines += chunk.blank_lines
    return whole


def test_every_line_is_good_bad_or_blank(path: Path) -> None:
    append(path, line(1), b"\n", b"  \t\r\n", b"{oops\n", line(2))
    chunk = poll(path)
    assert (chunk.good_lines, len(chunk.bad), chunk.blank_lines) == (2, 1, 2)


def test_a_bad_line_is_kept_with_its_place_and_reason_and_costs_no_other(path: Path) -> None:
    first = line(1)
    append(path, first, b'{"step": 1}\n', line(2))
    chunk = poll(path)
    assert chunk.bad == [BadLine(2, len(first), "neither 'prompt' nor 'response'")]
    assert [record.step for record in chunk.records] == [1, 2]


def test_a_locator_leads_back_to_the_sample(path: Path) -> None:
    append(path, line(1), b"\n", line(2, index=5))
    file = open_file(path)
    where = taken(file).locators[1]
    record = file.fetch(where)
    assert (where.line, record.texts["response"]) == (3, sample(2, index=5)["response"])


def test_lines_of_windows_with_a_byte_order_mark_are_read_and_found_again(path: Path) -> None:
    append(path, b"\xef\xbb\xbf", line(1).replace(b"\n", b"\r\n"), line(2).replace(b"\n", b"\r\n"))
    file = open_file(path)
    chunk = taken(file)
    assert [file.fetch(where).step for where in chunk.locators] == [1, 2]


def test_a_line_over_the_limit_is_bad(path: Path) -> None:
    append(path, line(1), line(2, essay="x" * 5000))
    chunk = poll(path, line_bytes=2000)
    assert len(chunk.records) == 1
    assert chunk.bad[0].reason.endswith("bytes; the limit is 2,000")


def test_a_rewritten_file_gives_no_wrong_sample(path: Path) -> None:
    append(path, line(1))
    file = open_file(path)
    where = taken(file).locators[0]
    path.write_bytes(path.read_bytes().replace(b"prompt 0", b"prompt 9"))
    with pytest.raises(SourceChanged, match=r"rollout_data_rank_0.jsonl:1: the file was rewritten"):
        file.fetch(where)


def test_a_deleted_file_gives_no_sample(path: Path) -> None:
    append(path, line(1))
    file = open_file(path)
    where = taken(file).locators[0]
    path.unlink()
    with pytest.raises(SourceChanged, match="No such file"):
        file.fetch(where)


def test_many_texts_are_those_of_the_samples_that_can_be_read(path: Path) -> None:
    append(path, *(line(1, index=index) for index in range(4)))
    file = open_file(path)
    where = taken(file).locators
    assert list(file.many_texts(where)) == [file.texts(each) for each in where]
    response = file.texts(where[2])["response"].encode()
    written, start = path.read_bytes(), where[1].offset
    path.write_bytes(written[:start] + written[start:].replace(b"prompt", b"PROMPT", 1))
    read = list(file.many_texts(where))
    assert [texts is None for texts in read] == [False, True, False, False]
    assert read[2] is not None
    assert read[2]["response"].encode() == response
    path.unlink()
    assert list(file.many_texts(where)) == [None] * 4


class Moody:
    """An adapter with a fault of its own."""

    name = "moody"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Takes everything."""
        return True

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Fails on one step."""
        return [Record(step=document["step"] // (document["step"] - 2))]


def test_a_fault_in_an_adapter_costs_its_line_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(path, line(1), line(2), line(3))
    with caplog.at_level(logging.CRITICAL):
        chunk = taken(JsonlFile(str(path), path.name, Moody()))
    assert (len(chunk.records), chunk.bad[0].line) == (2, 2)
    assert chunk.bad[0].reason.startswith("cannot be read as moody: ZeroDivisionError")


def test_many_short_lines_come_in_several_chunks(path: Path) -> None:
    append(path, b'{"step": 1, "prompt": ""}\n' * 100_000)
    sizes = [len(chunk.records) for chunk in open_file(path).poll(4 * BUDGET)]
    assert (sum(sizes), max(sizes) < 25_000) == (100_000, True)


def test_a_file_that_is_replaced_while_it_is_read_gives_the_new_lines_alone(path: Path) -> None:
    file = open_file(path)
    append(path, line(1) * 3)
    taken(file)
    path.write_bytes(line(7))
    (chunk,) = file.poll(BUDGET)
    assert (chunk.generation, [record.step for record in chunk.records]) == (1, [7])
