"""The live file: rollouts appear, end, and leave nothing behind; its size is bounded; a death is noticed."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import rlpanel
from rlpanel.recording.writer.sink import LIMIT, LiveFile
from rlpanel.sources.live.live_file_reader import LiveFileReader, has_live
from tests.waiting import wait_until


def ids(run: Path) -> list[str]:
    return sorted(each.id for each in LiveFileReader(run).read().rollouts)


def have_turns(run: Path, count: int) -> bool:
    return all(each.turns == count for each in LiveFileReader(run).read().rollouts)


def test_begin_turn_and_end_are_read_back_and_close_cleans_up(tmp_path: Path) -> None:
    with rlpanel.RolloutWriter(tmp_path, rank=3) as writer:
        assert writer.begin("e1", step=7, agent="solver", worker="engine 2")
        assert writer.begin("e2", step=7)
        assert writer.turn("e1", tokens=20, text="I look.", phase="tool")
        assert writer.turn("e1", tokens=5)
        assert writer.end("e2")
        wait_until(lambda: ids(tmp_path) == ["e1"])
        state = LiveFileReader(tmp_path).read()
        (found,) = state.rollouts
        assert (found.step, found.agent, found.worker) == (7, "solver", "engine 2")
        assert (found.turns, found.tokens, found.phase, found.text) == (2, 25, "tool", "I look.")
        assert not found.lost
        assert state.remarks == []
        assert has_live(tmp_path)
    assert not has_live(tmp_path)
    assert not (tmp_path / "in_flight").exists()


def test_a_writer_without_rollouts_in_flight_makes_no_file(tmp_path: Path) -> None:
    with rlpanel.RolloutWriter(tmp_path) as writer:
        assert not writer.turn("e1", tokens=1)
        assert not writer.end("e1")
        writer.write(step=1, prompt="p", response="r")
    assert not (tmp_path / "in_flight").exists()


def test_the_file_is_bounded_and_further_rollouts_are_counted(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, 0, "", "s", most=100, pulse=0.05)
    for at in range(120):
        live.put({"begin": f"e{at}", "step": 1})
    wait_until(lambda: LiveFileReader(tmp_path).read().others == 20)
    assert len(ids(tmp_path)) == 100
    for number in range(60):
        for at in range(100):
            live.put({"turn": f"e{at}", "tokens": 1, "text": "x" * 300})
        if number % 20 == 19:
            wait_until(partial(have_turns, tmp_path, number + 1))
    live.put({"end": "e0"})
    wait_until(lambda: "e0" not in ids(tmp_path))
    assert LIMIT * 0.9 < 60 * 100 * 160  # more was written than the file may hold
    assert (tmp_path / "in_flight" / "rank_0.live").stat().st_size <= LIMIT
    assert LiveFileReader(tmp_path).read().ended == {1: 1}
    assert live.dropped == 0
    live.close()


def test_a_process_that_is_killed_leaves_lost_rollouts(tmp_path: Path) -> None:
    program = (
        "import os, sys, time, rlpanel\n"
        "writer = rlpanel.RolloutWriter(sys.argv[1])\n"
        "writer.begin('e1', step=1); writer.turn('e1', tokens=4); writer.turn('e1')\n"
        "print('begun', flush=True); sys.stdin.read(1); os._exit(1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        wait_until(lambda: ids(tmp_path) == ["e1"])
        assert not LiveFileReader(tmp_path).read().rollouts[0].lost
        assert process.stdin is not None
        process.stdin.write(b".")
        process.stdin.close()
        process.wait()
        (found,) = LiveFileReader(tmp_path).read().rollouts
        assert found.lost == f"lost after 2 turns: the recorder's process {process.pid} has ended"
    assert found.seconds(time.time() + 1e6) == found.updated - found.started  # type: ignore[operator]
