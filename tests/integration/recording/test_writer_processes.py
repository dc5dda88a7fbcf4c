"""The writer in processes that end or fork: no row is lost, and no two processes share a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

NAME = "rollout_data_rank_0.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def run_python(code: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)


def test_queued_rows_are_written_when_the_process_ends(tmp_path: Path) -> None:
    run_python(
        "import sys; from rlpanel import RolloutWriter; w = RolloutWriter(sys.argv[1])\n"
        "for step in range(500): w.write(step=step, prompt='p', logprobs=[0.5] * 100)",
        tmp_path,
    )
    assert [row["step"] for row in lines(tmp_path / NAME)] == list(range(500))


def test_a_forked_child_writes_to_a_file_of_its_own(tmp_path: Path) -> None:
    run_python(
        "import os, sys; from rlpanel import RolloutWriter; w = RolloutWriter(sys.argv[1])\n"
        "w.write(step=1, prompt='parent'); child = os.fork()\n"
        "if not child: w.write(step=2, prompt='child'); w.close(); os._exit(0)\n"
        "os.waitpid(child, 0); w.write(step=3, prompt='parent')",
        tmp_path,
    )
    found = {path.name: [row["step"] for row in lines(path)] for path in tmp_path.iterdir()}
    assert found.pop(NAME) == [1, 3]
    assert list(found.values()) == [[2]]
