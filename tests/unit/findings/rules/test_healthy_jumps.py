"""Healthy runs whose numbers jump have no warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.finding_scores import check_folder
from tests.bench.reported import ALL
from tests.bench.reported_runs.simulation import made_run


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("PlannedPenalty", 501),  # a mean of exactly 0, as some of the steps before had
        ("Bilingual", 501),  # other sources, other lengths
        ("ReferenceReset", 500),  # the reference is set to the policy every 20 steps
        ("OtherTokenizer", 500),  # a token has less text, and responses happen to be shorter
        ("EasyEnd", 501),  # most of the prompts are learnt within the first 20 steps
    ],
)
def test_a_healthy_run_that_jumps_has_no_warning(tmp_path: Path, kind: str, seed: int) -> None:
    made_run(ALL[kind], seed).write(tmp_path / "run")
    found = check_folder(tmp_path / "run")
    assert [finding.sentence for finding in found if finding.severity != "info"] == []
