"""A loss that changes shows in the advantages: their sign, their size and their mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlpanel.divergence.paired_streams import loss_streams
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.settings import FindingSettings
from tests.bench.finding_scores import open_folder
from tests.unit.divergence.two_runs import STEPS, compared, rewards, write

ONSET = 12
#: What a fault makes of an advantage, and the stream that must say so first.
FAULTS: dict[str, tuple[Callable[[float], float], str]] = {
    "sign": (lambda value: -value, "correlation of reward and advantage"),
    "size": (lambda value: 30 * value, "spread of advantage"),
    "centre": (lambda value: value + 1.5, "advantage"),
    "missing": (lambda value: float("nan") if value > 0 else value, "samples without a finite advantage"),
}


def advantages(seed: int) -> np.ndarray:
    values = rewards(seed)
    return (values - values.mean(axis=2, keepdims=True)) / values.std(axis=2, ddof=1, keepdims=True)


def with_advantages(folder: Path, seed: int, change: Callable[[float], float] | None = None) -> Path:
    write(folder, rewards(seed))
    path = folder / "rollout_data_rank_0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line, value in zip(lines, advantages(seed).reshape(-1).tolist(), strict=True):
        line["advantage"] = change(value) if change is not None and line["step"] >= ONSET else value
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_changed_loss_is_found_at_its_step(fault: str, tmp_path: Path) -> None:
    change, name = FAULTS[fault]
    found = compared(with_advantages(tmp_path / "a", 1), with_advantages(tmp_path / "b", 2, change))
    assert found.partings[0].onset == ONSET
    assert name in {each.stream.stream.name for each in found.partings if each.onset == ONSET}


def test_equal_losses_do_not_part(tmp_path: Path) -> None:
    assert compared(with_advantages(tmp_path / "a", 1), with_advantages(tmp_path / "b", 2)).partings == ()


def test_values_against_numpy(tmp_path: Path) -> None:
    index = open_folder(with_advantages(tmp_path / "a", 1))
    streams = {
        each.name: each.values for each in loss_streams(RuleContext(index.view, FindingSettings(), 1e11))
    }
    flat, reward = (
        advantages(1).reshape(STEPS, -1),
        (rewards(1) - rewards(1).mean(axis=2, keepdims=True)).reshape(STEPS, -1),
    )
    np.testing.assert_allclose(streams["spread of advantage"], flat.std(axis=1, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(streams["advantage"], flat.mean(axis=1), atol=1e-6)
    follows = [np.corrcoef(a, b)[0, 1] for a, b in zip(flat, reward, strict=True)]
    np.testing.assert_allclose(streams["correlation of reward and advantage"], follows, rtol=1e-5)
