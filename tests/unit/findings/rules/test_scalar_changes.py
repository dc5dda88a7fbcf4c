"""Rules on the learning rate: a jump is reported, a warm-up or a schedule with restarts is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder

STEPS = 60


def check_rates(folder: Path, rates: list[float]) -> list[Finding]:
    """Return the jumps that are found in a run with these learning rates."""
    folder.mkdir(exist_ok=True)
    for name, lines in (
        ("rollouts.jsonl", [{"step": at, "prompt": f"p{at}", "response": "r"} for at in range(len(rates))]),
        ("scalars.jsonl", [{"step": at, "lr": rate} for at, rate in enumerate(rates)]),
    ):
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = [each for finding in check_folder(folder) for each in (finding, *finding.symptoms)]
    return [each for each in found if each.rule == "learning_rate_jumps"]


@pytest.mark.parametrize(
    ("before", "after"), [(2e-6, 4e-5), (2e-6, 6.1e-6), (0.0, 0.004)], ids=["twenty", "three", "rounded"]
)
def test_a_rate_that_triples_at_once_is_found_at_its_step(
    tmp_path: Path, before: float, after: float
) -> None:
    (jump,) = check_rates(tmp_path / "run", [before] * 25 + [after] * (STEPS - 25))
    assert jump.onset == 25
    assert jump.severity == "warning"
    assert "it was" in jump.sentence


SHARE = np.arange(STEPS) / STEPS
PLANNED = {
    "warm-up": [min(1.0, at / 8) * 1e-6 for at in range(STEPS)],
    "late warm-up": [*[0.0] * 3, *np.linspace(1e-7, 1e-6, STEPS - 3)],
    "rounded warm-up": [round(at * 1e-5 / 2, 4) for at in range(STEPS)],
    "constant": [1e-6] * STEPS,
    "cosine": (5e-7 * (1 + np.cos(np.pi * SHARE))).tolist(),
    "restarts": (1e-6 * (1 - 0.9 * (3 * SHARE % 1))).tolist(),
    "twice as high": [1e-6] * 30 + [2e-6] * 30,
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_planned_schedule_has_no_jump(tmp_path: Path, name: str) -> None:
    assert check_rates(tmp_path / "run", PLANNED[name]) == []
