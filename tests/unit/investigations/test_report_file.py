"""The file of reports: two writers, damaged lines, bounds, links, and folders that cannot be written."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rlpanel.errors import SettingError
from rlpanel.investigations.report_entry import MAX_LINE, parse_entry
from rlpanel.investigations.report_file import FILE, MAX_ENTRIES, ReportFile, new_entry


def number(identifier: str, value: float = 0.5) -> bytes:
    claim = {"metric": "reward_mean", "steps": "1", "expected": value}
    entry = {"id": identifier, "report": "R", "kind": "number", "claim": claim}
    return json.dumps(entry).encode() + b"\n"


def test_the_newest_line_of_an_entry_applies_in_the_place_of_its_first(tmp_path: Path) -> None:
    stored = ReportFile(tmp_path)
    for text in ("one", "two"):
        stored.write(new_entry("text", text=text, identifier=text))
    stored.write(new_entry("text", text="changed", identifier="one"))
    assert [entry.text for entry in stored.entries()] == ["changed", "two"]
    stored.remove("one")
    assert [entry.id for entry in ReportFile(tmp_path).entries()] == ["two"]
    with pytest.raises(SettingError, match="no entry 'one'"):
        stored.remove("one")


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(name: str) -> None:
        stored = ReportFile(tmp_path)
        for at in range(40):
            stored.write(new_entry("text", text=f"{name} {at} 汉字 🎉" * 20, identifier=f"{name}{at}"))

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stored = ReportFile(tmp_path)
    assert {entry.id for entry in stored.entries()} == {f"{name}{at}" for name in "ab" for at in range(40)}
    assert stored.problems == ()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"{", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"id": "A/..", "report": "R", "kind": "text"}', "no name of an entry"),
        (
            b'{"id": "a", "report": "R", "kind": "number", "claim": {"metric": "m", "expected": NaN}}',
            "finite",
        ),
        (b'{"id": "a", "report": "R", "kind": "number", "claim": {"metrics": "m"}}', "no key 'metrics'"),
        (b'{"id": "a", "report": "R", "kind": "quotation", "claim": {"uid": "u"}}', "needs field"),
        (
            b'{"id": "a", "report": "R", "kind": "finding", "claim": {"rule": "r", "onset": 1e3}}',
            "whole number",
        ),
        (b'{"id": "a", "report": "\\u0000", "kind": "text"}', "printable"),
        (b'{"id": "a", "report": "R", "kind": "script"}', "one of query"),
        (b'"' + b"x" * MAX_LINE + b'"', "bytes"),
        (b"[" * 20_000, "no JSON"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_else_is_lost(tmp_path: Path, bad: bytes, said: str) -> None:
    (tmp_path / FILE).write_bytes(number("a") + bad + b"\n" + number("b"))
    stored = ReportFile(tmp_path)
    assert [entry.id for entry in stored.entries()] == ["a", "b"]
    [problem] = stored.problems
    assert f"{FILE}: line 2 holds no valid entry" in problem
    assert said in problem


def test_an_entry_after_a_torn_line_starts_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(number("a") + b'{"id": "torn')
    stored = ReportFile(tmp_path)
    stored.write(new_entry("text", text="after", identifier="b"))
    assert [entry.id for entry in stored.entries()] == ["a", "b"]
    assert "line 2" in stored.problems[0]


def test_ten_thousand_claims_are_bounded_and_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"".join(number(f"c{at}") for at in range(10_000)))
    stored = ReportFile(tmp_path)
    assert len(stored.entries()) == MAX_ENTRIES
    assert stored.problems == (f"10,000 entries: only the first {MAX_ENTRIES:,} are read",)
    with pytest.raises(SettingError, match="at most 2,000 entries"):
        stored.write(new_entry("text", text="one more"))


def test_a_large_file_is_not_made_larger(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(5 << 20)
    stored = ReportFile(tmp_path)
    with pytest.raises(SettingError, match="is full"):
        stored.write(new_entry("text", text="one more"))
    assert (tmp_path / FILE).stat().st_size == 5 << 20
    assert "only the last 4 MB are read" in stored.problems[0]


def test_a_link_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run, outside = tmp_path / "run", tmp_path / "outside.jsonl"
    run.mkdir()
    outside.write_bytes(number("secret"))
    (run / FILE).symlink_to(outside)
    stored = ReportFile(run)
    assert stored.entries() == []
    assert "is ignored" in stored.problems[0]
    written = stored.write(new_entry("text", text="mine"))
    assert not written.is_relative_to(run)  # the user's cache folder takes it
    assert outside.read_bytes() == number("secret")


def test_an_entry_is_read_as_it_was_written() -> None:
    claim = {"uid": "f:0", "field": "response", "text": "<b>😀汉\u202e</b>\n", "start": 3}
    entry = new_entry("quotation", text="*so*", claim=claim, author="agent", report="  My   report ")
    assert entry.report == "My report"
    assert parse_entry(entry.line()) == entry
