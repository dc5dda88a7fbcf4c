"""An alarm stops a real training with TRL, with the reason in its log; a healthy training goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from tests.train.conftest import QUIET, ROOT, TRAIN
from tests.train.faults import ONSET, STEPS


def trained(folder: Path, fault: str) -> tuple[dict[str, Any], str]:
    """Train with ``halt_on="alarm"``; return the answer of the process, and what it logged."""
    command = [str(TRAIN / "bin" / "python"), "-m", "tests.train.faults", "--halt", str(folder), fault]
    done = subprocess.run(
        [*command, sysconfig.get_path("purelib")],
        env=os.environ | QUIET | {"PYTHONPATH": str(ROOT), "HF_HOME": str(folder / "hf")},
        cwd=ROOT, capture_output=True, text=True, timeout=2400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_a_fault_stops_the_training_and_the_log_says_why(tmp_path: Path) -> None:
    answer, log = trained(tmp_path, "null_part")
    # Two further steps confirm it; the process that checks then looks at the next complete step.
    assert ONSET + 2 <= answer["steps"] < STEPS
    assert answer["reason"].startswith(f"alarm missing_parts: From step {ONSET} on")
    assert f"training stops after step {answer['steps']}: {answer['reason']}" in log


def test_a_healthy_training_is_never_stopped(tmp_path: Path) -> None:
    answer, log = trained(tmp_path, "healthy")
    assert answer == {"steps": STEPS, "reason": ""}
    assert "cannot stop this training" not in log
