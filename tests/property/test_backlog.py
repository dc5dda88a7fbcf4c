"""A growing backlog, read in ranges in any order, gives the same store as reading it sequentially."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rlpanel.settings import Reading
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.backlog.range_reader import index_range, split_into_ranges
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, rewrite
from tests.limits import SAVED, store_limits
from tests.property import strategies
from tests.property.test_invariants import assert_same, assert_true, folder, follow, write

History = tuple[dict[str, bytes], list[tuple[str, bytes]]]
#: Each example reads a run in many small rounds, several times.
fewer = settings(max_examples=max(5, settings().max_examples // 10))
#: Bytes of a range: less than a line, a few lines, the whole file.
sizes = st.sampled_from([8, 64, 300, 1 << 20])


def in_ranges(run: Path, size: int) -> RunIndex:
    """An index that reads everything in ranges."""
    reading = Reading(backlog_bytes=1, turn_bytes=1 << 10)
    return RunIndex(run, "run", reading, limits=store_limits(range_bytes=size, min_log_bytes=0))


@fewer
@given(strategies.histories(), sizes)
def test_any_split_into_ranges_gives_the_store_of_a_plain_read(history: History, size: int) -> None:
    logs, _ = history
    with folder() as run:
        write(run, logs)
        plain = follow(RunIndex(run, "run"))
        assert_same(follow(in_ranges(run, size)), plain)


@fewer
@given(strategies.histories(), sizes, st.data())
def test_lines_that_come_meanwhile_change_nothing(history: History, size: int, data: st.DataObject) -> None:
    _, appends = history

    def live(index: RunIndex, run: Path) -> None:
        for name, piece in appends:
            append(run / name, piece)
            if data.draw(st.booleans(), label="look for files"):
                index.rescan()
            for _ in range(data.draw(st.integers(0, 3), label="turns")):
                index.read()

    with folder() as run:
        index = in_ranges(run, size)
        live(index, run)
        found = follow(index)
        assert_same(found, follow(RunIndex(run, "run")))


@fewer
@given(strategies.histories(), sizes, st.data())
def test_a_run_closed_at_any_time_and_opened_again_is_the_run(
    history: History, size: int, data: st.DataObject
) -> None:
    """The backlog may be incomplete, and the cache on disk may have any state."""
    _, appends = history

    def live(run: Path) -> None:
        index = in_ranges(run, size)
        for name, piece in appends:
            append(run / name, piece)
            index.rescan()
            for _ in range(data.draw(st.integers(0, 6), label="turns")):
                index.read()
            if data.draw(st.booleans(), label="again"):
                index.close()
                index = in_ranges(run, size)
        follow(index)
        index.close()

    with folder() as run:
        live(run)
        again = RunIndex(run, "run", limits=SAVED)
        assert_same(follow(again), follow(RunIndex(run, "run", Reading(cache=False))))
        assert again.bytes_read == 0 or not again.snapshot.rows


@fewer
@given(strategies.log, strategies.log, sizes, st.integers(0, 4), st.booleans(), st.booleans())
def test_a_log_replaced_meanwhile_leaves_nothing_behind(
    before: bytes, after: bytes, size: int, turns: int, missed: bool, seen: bool
) -> None:
    name = "rollout_data_rank_0.jsonl"

    def look(index: RunIndex, run: Path) -> None:
        write(run, {name: before})
        index.rescan()
        for _ in range(turns):
            index.read()
        (run / name).unlink()
        if missed:
            index.rescan()
        rewrite(run / name, after)
        if seen:
            index.read()
        follow(index)

    with folder() as run:
        index = in_ranges(run, size)
        look(index, run)
        assert_true(index.snapshot, {name: after})


@fewer
@given(strategies.log, st.integers(1, 400))
def test_each_line_belongs_to_the_range_it_starts_in(log: bytes, size: int) -> None:
    whole = log[: log.rfind(b"\n") + 1]
    with folder() as run:
        path = run / "x.jsonl"
        path.write_bytes(log)
        reader = JsonlFile(str(path), "x.jsonl", Native())
        parts = list(split_into_ranges(0, reader, 0, len(whole), size))
        for part in parts:
            piece = index_range(part)
            starts = [at for at in range(part.start, part.end) if at == 0 or log[at - 1 : at] == b"\n"]
            assert piece.newlines == len(starts)
            rows = set() if piece.rows is None else set(piece.rows.metadata["offset"].tolist())
            assert {bad.offset for bad in piece.bad} | rows <= set(starts)
