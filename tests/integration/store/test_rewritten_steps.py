"""A step that a resumed run writes again: the old rows are shown until the new file is as long."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.store.index.run_index import RunIndex
from tests.live_writers import FORMATS, rows

ROWS = 64


def shown(index: RunIndex) -> tuple[int, float]:
    """Number of rows and sum of rewards after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    found = index.snapshot
    return len(found.alive_rows), float(found.number("reward")[found.alive_rows].sum())


@pytest.mark.parametrize("name", ["verl", "nemo_rl", "tinker"])
def test_a_step_that_is_written_again_does_not_shrink_meanwhile(name: str, tmp_path: Path) -> None:
    write, new = FORMATS[name], tmp_path / "new"
    write(tmp_path / "run", 1, rows(1, ROWS, 0))
    write(new, 1, rows(1, ROWS, 1))
    (path,) = (path for path in (tmp_path / "run").rglob("*.jsonl"))
    text = next(new.rglob("*.jsonl")).read_bytes()
    index = RunIndex(tmp_path / "run", "run")
    old = shown(index)
    states = []
    for share in (0.0, 0.25, 0.5, 0.75):
        path.write_bytes(text[: int(len(text) * share)])
        states.append(shown(index))
    path.write_bytes(text)
    assert (old, shown(index)) == ((ROWS, 0.375 * ROWS), (ROWS, 1.375 * ROWS))
    assert set(states) == {old}
