"""Mutated logs of all trainers: what cannot be read is said, and nothing raises an unexpected error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapter_fuzz import Fuzzer

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("seed", "files"),
    [(1, 100), *(pytest.param(seed, 1000, marks=pytest.mark.slow) for seed in range(1, 12))],
)
def test_a_mutated_log_raises_no_unexpected_error(tmp_path: Path, seed: int, files: int) -> None:
    fuzzer = Fuzzer(seed, [DATA / "upstream", DATA])
    fuzzer.run(files, tmp_path / "run")
    assert not fuzzer.places
