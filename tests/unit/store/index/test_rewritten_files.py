"""A file that is rewritten: its former rows stay until its new content is complete, and none counts twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.settings import Reading
from rlpanel.store.index import run_content
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, rewrite
from tests.waiting import wait_until

NAME = "2.jsonl"
ROWS, PIECE = 300, 1000


def step_of_verl(reward: float, rows: int = ROWS) -> bytes:
    """A step's file as verl writes it."""
    texts = [{"input": f"ask {at}", "output": "so", "score": reward, "step": 2} for at in range(rows)]
    return b"".join(json.dumps(each).encode() + b"\n" for each in texts)


def opened(folder: Path, **reading: object) -> RunIndex:
    return RunIndex(folder, "run", Reading(**{"cache": False, "line_rest": 3600.0, **reading}))


def look(index: RunIndex) -> tuple[int, float]:
    """Look at the folder once, and return the number of samples and their mean reward."""
    index.rescan()
    while index.read():
        pass
    return state(index)


def state(index: RunIndex) -> tuple[int, float]:
    steps = index.snapshot.steps
    return index.snapshot.samples, float(steps.mean("reward")[-1]) if len(steps.values) else -1.0


def being_rewritten(index: RunIndex) -> list[str]:
    return [item.file for item in index.snapshot.unread if item.reason == "is being rewritten"]


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader(Reading(cache=False, line_rest=3600.0, rescan_interval=0.1, debounce=0.0))
    yield made
    made.stop()


def test_no_snapshot_shows_a_part_of_a_step_that_is_written_again(reader: Reader, tmp_path: Path) -> None:
    """A writer truncates the file and fills it in pieces, each of which the reader sees."""
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = reader.open(tmp_path)
    wait_until(lambda: state(index) == (ROWS, 0.0))
    seen: set[tuple[int, float]] = set()
    held: set[str] = set()

    def note(changed: RunIndex | None) -> None:
        seen.add(state(index))
        held.update(being_rewritten(index))

    reader.listen(note)
    content = step_of_verl(1.0)
    with (tmp_path / NAME).open("wb") as file:
        for start in range(0, len(content), PIECE):
            file.write(content[start : start + PIECE])
            file.flush()
            if start < 20 * PIECE:
                before = reader.rounds
                wait_until(lambda before=before: reader.rounds > before + 1)  # type: ignore[misc]
    wait_until(lambda: state(index) == (ROWS, 1.0) and not index.snapshot.unread)
    assert seen == {(ROWS, 0.0), (ROWS, 1.0)}
    assert held == {NAME}, "it is said while it lasts"


def test_fewer_rows_are_shown_once_the_file_rests(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 40))
    assert (look(index), being_rewritten(index)) == ((ROWS, 0.0), [NAME])
    rewrite(tmp_path / NAME, step_of_verl(1.0, 40))
    assert (look(index), being_rewritten(index)) == ((40, 1.0), [])
    append(tmp_path / NAME, step_of_verl(1.0, 2))
    assert look(index) == (42, 1.0)


def test_a_follower_shows_what_was_truncated_for_good(tmp_path: Path) -> None:
    reader = Reader(Reading(cache=False, line_rest=0.1, rescan_interval=60.0))
    try:
        (tmp_path / NAME).write_bytes(step_of_verl(0.0))
        index = reader.open(tmp_path)
        wait_until(lambda: state(index) == (ROWS, 0.0))
        (tmp_path / NAME).write_bytes(b"")
        wait_until(lambda: index.snapshot.samples == 0)
        append(tmp_path / NAME, step_of_verl(1.0, 4))
        wait_until(lambda: state(index) == (4, 1.0))
    finally:
        reader.stop()


def test_a_log_that_begins_anew_and_never_rests_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path, line_rest=0.05)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 1))
    rows = 1
    while look(index)[1] == 0.0 and rows < ROWS:
        append(tmp_path / NAME, step_of_verl(1.0, 1))
        wait_until(lambda: index.next_due < 0.03)
        rows += 1
    assert rows < ROWS
    assert state(index)[1] == 1.0


def test_a_file_that_is_rewritten_twice_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 200))
    assert look(index) == (ROWS, 0.0)
    (tmp_path / NAME).write_bytes(step_of_verl(2.0, 100))
    assert look(index) == (ROWS, 0.0)
    (tmp_path / NAME).write_bytes(step_of_verl(3.0))
    assert look(index) == (ROWS, 3.0)
    assert index.snapshot.bad_count == 0


def test_who_reads_once_reads_what_is_there(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 7))
    look(index)
    index.read_last_lines()
    assert (state(index), being_rewritten(index)) == ((7, 1.0), [])


def test_bad_lines_come_and_go_with_the_content_that_is_shown(tmp_path: Path) -> None:
    append(tmp_path / NAME, b"{torn\n", step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(b"{torn\n{torn too\n" + step_of_verl(1.0, 10))
    assert (look(index)[0], index.snapshot.bad_count) == (ROWS, 1)
    append(tmp_path / NAME, step_of_verl(1.0))
    assert (look(index), index.snapshot.bad_count) == ((ROWS + 10, 1.0), 2)


def test_a_file_that_is_deleted_while_it_is_rewritten_is_gone(tmp_path: Path) -> None:
    append(tmp_path / "1.jsonl", step_of_verl(0.0, 3))
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 7))
    look(index)
    (tmp_path / NAME).unlink()
    assert (look(index)[0], being_rewritten(index)) == (3, [])


def test_what_is_held_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_content, "MAX_ROWS", 50)
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    look(index)
    (tmp_path / NAME).write_bytes(step_of_verl(1.0, 60))
    assert look(index) == (60, 1.0)


def test_a_restart_is_found_in_the_content_that_replaced_another(tmp_path: Path) -> None:
    path = tmp_path / "rollout_data_rank_0.jsonl"
    append(path, *(line(step, index=index) for step in range(1, 9) for index in range(4)))
    index = opened(tmp_path)
    look(index)
    again = [line(step, index=index) for step in (1, 2, 3, 4, 1, 2) for index in range(4)]
    path.write_bytes(b"".join(again[:10]))
    assert look(index)[0] == 32
    rewrite(path, *again)
    look(index)
    assert (index.snapshot.samples, index.snapshot.older, index.snapshot.restarts) == (8, 16, (1,))


def test_a_file_that_is_empty_for_a_moment_keeps_its_rows(tmp_path: Path) -> None:
    """Opening with mode "w" empties a file, and its first bytes do not show its format."""
    path = tmp_path / NAME
    path.write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    old = look(index)
    states = []
    for size in (0, 20):
        path.write_bytes(step_of_verl(1.0)[:size])
        states.append(look(index))
    path.write_bytes(step_of_verl(1.0))
    assert (states, look(index)) == ([old, old], (ROWS, 1.0))


def test_a_file_that_stays_empty_loses_its_rows(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_bytes(step_of_verl(0.0, 5))
    (tmp_path / NAME).write_bytes(step_of_verl(0.0))
    index = opened(tmp_path)
    assert look(index)[0] == ROWS + 5
    rewrite(tmp_path / NAME)
    assert look(index)[0] == 5
