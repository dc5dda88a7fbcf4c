"""Times of files and notes may be any number."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import pytest

import rlpanel
from rlpanel.number_text import utc_text
from rlpanel.queries.reports.claim_report import notes
from rlpanel.queries.runs import runs
from rlpanel.store.query.notes_beside_log import FILE
from tests.factories import append, write_run

YEAR_10000 = 253402300800


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (YEAR_10000 - 1, "9999-12-31T23:59:59Z"),
        (YEAR_10000, None),
        (-1e11, None),
        (1e300, None),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
    ],
)
def test_a_time_that_no_calendar_has_is_none(seconds: float, text: str | None) -> None:
    assert utc_text(seconds) == text


def test_a_file_from_the_year_10000_ends_no_list_of_runs() -> None:
    # The file systems of most disks cannot hold such a time, but those in memory can.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for name in ("odd", "usual"):
            write_run(Path(folder, name), steps=1)
        (log,) = Path(folder, "odd").iterdir()
        os.utime(log, (YEAR_10000, YEAR_10000))
        held = log.stat().st_mtime == YEAR_10000
        rows = {row["run"]: row["modified"] for row in runs(folder).rows}
    assert rows.keys() == {"odd", "usual"}
    assert (rows["odd"] is None) == held
    assert rows["usual"] is not None


def test_a_note_from_the_year_10000_ends_no_list_of_notes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1)
    append(folder / FILE, b'{"uid": "rollout_data_rank_0.jsonl:0", "tag": "odd", "time": 1e15}\n')
    with rlpanel.open_run(folder, follow=False) as run:
        (row,) = notes(run.data).rows
    assert (row["tag"], row["time"]) == ("odd", None)
