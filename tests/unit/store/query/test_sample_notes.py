"""Tags and notes of one viewer are visible to others."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rlpanel
from rlpanel.store.query.notes_beside_log import FILE, MAX_BYTES, Notes
from tests.factories import append, write_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_what_is_left_is_found_by_another(run: Path) -> None:
    one, other = Notes(run), Notes(run)
    one.write("a.jsonl:0", "cheat", "repeats <b>the</b> prompt")
    assert other.refresh()
    assert (other.of("a.jsonl:0").tag, other.of("a.jsonl:0").note) == ("cheat", "repeats <b>the</b> prompt")


def test_a_run_gives_its_notes_as_a_table(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, samples=2)
    run = rlpanel.open_run(folder, follow=False)
    uid = run.samples().uid[1]
    Notes(folder).write(uid, "cheat", "copies the prompt")
    assert run.notes[["uid", "tag", "note"]].values.tolist() == [[uid, "cheat", "copies the prompt"]]


def test_the_last_word_counts_and_the_file_keeps_all(run: Path) -> None:
    notes = Notes(run)
    for tag in ("one", "two", ""):
        notes.write("a.jsonl:0", tag, "")
    assert notes.of("a.jsonl:0").tag == ""
    assert notes.all() == []
    lines = (run / FILE).read_text().splitlines()
    assert [json.loads(line)["tag"] for line in lines] == ["one", "two", ""]


def test_two_who_write_at_once_lose_nothing(run: Path) -> None:
    one, other = Notes(run), Notes(run)
    one.write("a.jsonl:0", "x", "")
    other.write("a.jsonl:9", "y", "")
    assert [note.uid for note in Notes(run).all()] == ["a.jsonl:0", "a.jsonl:9"]


def test_a_folder_that_cannot_be_written_leaves_them_in_the_cache(run: Path, cache: Path) -> None:
    (run / FILE).mkdir()  # refuses a file even to root
    path = Notes(run).write("a.jsonl:0", "kept", "")
    assert path.is_relative_to(cache)
    assert Notes(run).of("a.jsonl:0").tag == "kept"


@pytest.mark.parametrize(
    "bad",
    [
        *(b"{", b"[]", b'{"uid": "nothing"}', b'{"uid": "a:1", "time": "x"}', b"\xff\xfe", b"null"),
        b"[" * 200_000,
        b'{"uid": "a:1", "tag": "x", "time": 1' + b"0" * 400 + b"}",
        b'{"uid": "a:1", "tag": "x", "time": NaN}',
        b'{"uid": "a:1' + b"0" * 400 + b'", "tag": "x"}',
        b'{"uid": "a:1", "tag": ' + b"[" * 900 + b"]" * 900 + b', "time": Infinity}',
    ],
    ids=range(11),
)
def test_a_line_that_is_no_note_is_left_out_and_counted(tmp_path: Path, bad: bytes) -> None:
    folder = write_run(tmp_path / "run", steps=1, samples=2)
    run = rlpanel.open_run(folder, follow=False)
    uids = run.samples().uid
    Notes(folder).write(uids[0], "before", "")
    append(folder / FILE, bad + b"\n\n", bad + b"\n")
    Notes(folder).write(uids[1], "after", "")
    notes = Notes(folder)
    assert [note.uid for note in notes.all()] == uids.tolist()
    assert notes.labels(run.snapshot)["tag"][1] == ["before", "after"]
    assert notes.problems == (f"{FILE}: 2 lines hold no valid note and are skipped, the first is line 2",)


def test_only_the_newest_notes_of_a_very_large_file_are_read(run: Path) -> None:
    with (run / FILE).open("wb") as file:
        file.truncate(MAX_BYTES)  # bytes that are no note
    assert Notes(run).problems == (f"{FILE}: 1 line holds no valid note and is skipped, the first is line 1",)
    append(run / FILE, b"\n")
    Notes(run).write("a.jsonl:0", "kept", "")
    notes = Notes(run)
    assert [note.uid for note in notes.all()] == ["a.jsonl:0"]
    (problem,) = notes.problems
    assert problem.endswith("bytes: only the last 8 MB are read")
    assert problem.startswith(f"{FILE} has 8,388,")


@pytest.mark.parametrize(
    ("kind", "reason"), [("pipe", "not a regular file"), ("link", "a link"), ("folder", "a folder")]
)
def test_anything_else_in_the_place_of_the_notes_is_named(
    run: Path, tmp_path: Path, kind: str, reason: str
) -> None:
    (tmp_path / "elsewhere").write_text('{"uid": "a:0", "tag": "secret"}\n')
    if kind == "pipe":
        os.mkfifo(run / FILE)
    elif kind == "link":
        (run / FILE).symlink_to(tmp_path / "elsewhere")
    else:
        (run / FILE).mkdir()
    notes = Notes(run)
    assert (notes.tags(), notes.problems) == ([], (f"{FILE} is ignored: is {reason}",))


def test_tags_in_use_come_by_how_often(run: Path) -> None:
    notes = Notes(run)
    for offset, tag in enumerate(["b", "a", "a", "c"]):
        notes.write(f"a.jsonl:{offset}", tag, "")
    assert notes.tags() == ["a", "b", "c"]


def test_the_tags_are_counted_again_only_after_a_change(run: Path) -> None:
    notes = Notes(run)
    notes.write("a.jsonl:0", "b", "")
    counted = notes.tags()
    assert notes.tags() is counted
    notes.write("a.jsonl:1", "a", "")
    assert notes.tags() == ["a", "b"]


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> tuple[rlpanel.Run, rlpanel.Run]:
    """A run with few notes, and one with four times as many."""
    folder = tmp_path_factory.mktemp("noted")
    few, many = (noted_run(folder / str(count), count) for count in (4_000, 16_000))
    return rlpanel.open_run(few, follow=False), rlpanel.open_run(many, follow=False)


@pytest.mark.parametrize("what", ["tags", "labels"])
def test_the_time_of_many_notes_grows_with_their_number(
    noted: tuple[rlpanel.Run, rlpanel.Run], what: str
) -> None:
    few, many = (seconds_of(what, run) for run in noted)
    assert many / max(few, 0.01) < 9  # 4 if the time is linear, 16 if it is quadratic


def noted_run(folder: Path, count: int) -> Path:
    """Write a run of so many samples, each with a tag and a note of its own."""
    folder.mkdir()
    lines, notes, offset = [], [], 0
    for number in range(count):
        line = json.dumps({"step": number // 64, "prompt": "q", "response": "a", "reward": 1.0}) + "\n"
        uid = f"rank_00000.jsonl:{offset}"
        notes.append(json.dumps({"uid": uid, "tag": f"t{number}", "note": f"n{number}", "time": number}))
        lines.append(line)
        offset += len(line)
    (folder / "rank_00000.jsonl").write_text("".join(lines))
    (folder / FILE).write_text("\n".join(notes) + "\n")
    return folder


def seconds_of(what: str, run: rlpanel.Run) -> float:
    notes = Notes(run.path)
    work: dict[str, Callable[[], object]] = {
        "tags": notes.tags,
        "labels": lambda: notes.labels(run.snapshot),
    }
    gc.collect()
    started = time.thread_time()
    work[what]()
    taken = time.thread_time() - started
    codes, texts = notes.labels(run.snapshot)["note"]
    assert [texts[code] for code in codes[-2:]] == [note.note for note in notes.all()[-2:]]
    return taken


def test_a_note_with_an_offset_beyond_all_files_is_left_out_of_the_columns(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, samples=2)
    huge = {"uid": f"rollout_data_rank_0.jsonl:{'9' * 400}", "tag": "x", "time": 1.0}
    (folder / FILE).write_text(json.dumps(huge) + "\n")
    run = rlpanel.open_run(folder, follow=False)
    assert (Notes(folder).labels(run.snapshot)["tag"][0] == -1).all()
