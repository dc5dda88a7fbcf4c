"""What a live file of the recorder says: torn ends, bad lines, missing headers and silence have sentences."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

from rlpanel.sources.live.live_file_reader import LiveFileReader, has_live
from rlpanel.sources.live.live_rollout import death, read_own

HERE = {"rlpanel_live": 1, "pid": os.getpid(), "host": socket.gethostname(), "rank": 2}


def write(run: Path, *deltas: object, torn: str = "") -> Path:
    folder = run / "in_flight"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(delta) + "\n" for delta in deltas)
    (folder / "rank_2.live").write_text(text + torn)
    return folder / "rank_2.live"


def test_a_torn_end_is_not_read_and_said(tmp_path: Path) -> None:
    write(tmp_path, HERE, {"begin": "e1", "time": 5.0}, torn='{"begin": "e2", "ti')
    state = LiveFileReader(tmp_path).read()
    assert [(each.id, each.worker, each.lost) for each in state.rollouts] == [("e1", "rank 2", "")]
    assert state.remarks == ["rank_2.live ends in the middle of a line: its last 19 bytes are not read yet."]


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    write(tmp_path, HERE, [1], {"other": 1}, {"begin": 5}, {"begin": "e1"}, torn="{]\n")
    state = LiveFileReader(tmp_path).read()
    assert [each.id for each in state.rollouts] == ["e1"]
    assert state.remarks == ["rank_2.live: 4 lines could not be read."]


def test_a_file_without_a_header_says_so(tmp_path: Path) -> None:
    write(tmp_path, {"begin": "e1"})
    (remark,) = LiveFileReader(tmp_path).read().remarks
    assert remark == "rank_2.live has no header: whether its recorder lives is known by the file's time only."


def test_silence_on_another_host_is_a_loss(tmp_path: Path) -> None:
    path = write(
        tmp_path, HERE | {"host": "elsewhere"}, {"begin": "e1", "time": 5.0}, {"turn": "e1", "time": 8.0}
    )
    fresh, late = (read_own(str(path), 1000.0, now).rollouts[0] for now in (1059.0, 1075.0))
    assert fresh.lost == ""
    assert late.lost == "lost after 1 turn: no sign of life for 75 s"
    assert (fresh.seconds(1059.0), late.seconds(1075.0)) == (1054.0, 3.0)


def test_a_process_of_this_host_that_ended_is_dead_at_once() -> None:
    now = time.time()
    assert death(HERE, now, now) == ""
    assert death(HERE | {"pid": 2**22 + 1}, now, now) == f"the recorder's process {2**22 + 1} has ended"
    assert death(HERE | {"pid": "x"}, now, now) == ""


def test_ended_rollouts_are_counted_by_step(tmp_path: Path) -> None:
    deltas = [{"begin": name, "step": 4} for name in "abc"]
    write(tmp_path, HERE | {"ended": {"4": 5, "x": 1}}, *deltas, {"end": "a"}, {"end": "unknown"})
    state = LiveFileReader(tmp_path).read()
    assert state.ended == {4: 6}
    assert [each.id for each in state.rollouts] == ["b", "c"]


def test_links_are_not_followed_and_a_run_without_files_has_none(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (run / "in_flight").mkdir(parents=True)
    (outside / "x.live").write_text(json.dumps({"begin": "secret"}) + "\n")
    (run / "in_flight" / "rank_0.live").symlink_to(outside / "x.live")
    assert not has_live(run)
    assert LiveFileReader(run).read().rollouts == []
