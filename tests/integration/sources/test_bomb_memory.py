"""Memory that decompression bombs cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import bombs

pytestmark = pytest.mark.slow


def test_files_of_ten_gigabytes_that_are_small_on_disk_cost_little_memory(tmp_path: Path) -> None:
    """Measured by the system, in a process of its own."""
    for rank, bomb in enumerate((bombs.blanks_in_a_frame, bombs.blanks_in_a_member, bombs.lines_in_frames)):
        bomb(tmp_path / f"rollout_data_rank_{rank}.jsonl")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 16e6
    command = [sys.executable, "-m", "tests.bench.hostile", "--measure", str(tmp_path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert 1e3 < found["rows"] < 1e4  # of the last, as far as it was read
    assert found["bad"] == 2
    assert all("bytes when decompressed, far more than in any log" in reason for reason in found["reasons"])
    assert ["far too long" in problem for problem in found["problems"]] == [True, True, False]
    assert "-fold when decompressed, unlike any log" in found["problems"][2]
    assert 10 < found["memory"] < 350  # megabytes; of each of the first two a line of 64 was held
