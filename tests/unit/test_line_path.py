"""The path of one appended line: how many modules it enters until the new snapshot is published."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rlpanel
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run

#: Most modules in `rlpanel.sources` and `rlpanel.store`, and most of the whole package. The latter include
#: the formulas in `rlpanel.metrics`, of which those for the fields of the line are entered.
MAX_MODULES, MAX_OF_PACKAGE = 25, 38
_PACKAGE = Path(rlpanel.__file__).parent


def modules_entered(work: Callable[[], object]) -> set[str]:
    """Return the modules of rlpanel of which a function is called while ``work`` is done."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    paths = [Path(file) for file in files]
    return {path.relative_to(_PACKAGE).as_posix() for path in paths if path.is_relative_to(_PACKAGE)}


def test_an_appended_line_enters_few_modules_up_to_the_new_snapshot(tmp_path: Path) -> None:
    log = write_run(tmp_path / "run", steps=3, samples=8) / "rollout_data_rank_0.jsonl"
    index = RunIndex(tmp_path / "run", "run")
    index.rescan()
    while index.read():
        pass
    index.compute_statistics()
    before = index.snapshot
    append(log, line(4))
    entered = modules_entered(lambda: index.read({str(log)}))
    assert (before.rows, index.snapshot.rows) == (24, 25)
    way = {name for name in entered if name.startswith(("sources/", "store/"))}
    assert {"sources/readers/tail.py", "store/snapshot/snapshot.py"} <= way
    assert len(way) <= MAX_MODULES, sorted(way)
    assert len(entered) <= MAX_OF_PACKAGE, sorted(entered)
