"""Healthy runs whose numbers jump have no warning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.bench.finding_scores import check_folder
from tests.bench.reported import ALL
from tests.bench.reported_runs.simulation import made_run


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("PlannedPenalty", 501),  # a mean of exactly 0, as some of the steps before had
        ("Bilingual", 501),  # other sources, other lengths
        ("ReferenceReset", 500),  # the reference is set to the policy every 20 steps: its logprobs jump
        ("ReferenceReset", 504),  # KL falls
        ("OtherTokenizer", 500),  # a token has less text, and responses happen to be shorter
        ("EasyEnd", 501),  # most of the prompts are learnt within the first 20 steps
    ],
)
def test_a_healthy_run_that_jumps_has_no_warning(tmp_path: Path, kind: str, seed: int) -> None:
    made_run(ALL[kind], seed).write(tmp_path / "run")
    found = check_folder(tmp_path / "run")
    assert [finding.sentence for finding in found if finding.severity != "info"] == []


@pytest.mark.parametrize("of_response", [False, True])
def test_only_a_label_of_prompts_excuses_longer_responses(tmp_path: Path, of_response: bool) -> None:
    """From step 30 on most samples are of the kind with long responses: other data, or loops."""
    draw = np.random.default_rng(0)
    lines = []
    for step in range(60):
        share = 0.2 if step < 30 else 0.8
        for group in range(8):
            of_group = draw.random() < share
            for sample in range(6):
                is_long = draw.random() < share if of_response else of_group
                words = int(draw.integers(80, 120)) if is_long else int(draw.integers(20, 30))
                lines.append(
                    {
                        "step": step,
                        "group": group,
                        "prompt": f"Task {step} {group}",
                        "response": " ".join(f"w{at * 7 % 31}" for at in range(words)) + f" {sample}",
                        "reward": float(draw.random() < 0.5),
                        "kind": "long" if is_long else "short",
                    }
                )
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = check_folder(tmp_path)
    every = [each for finding in found for each in (finding, *finding.symptoms)]
    (grows,) = [each for each in every if each.subject.startswith("response") and "grows" in each.subject]
    excuses = [each for each in grows.evidence if "The mix of kind is another one" in each]
    assert (grows.severity, bool(excuses)) == (("warning", False) if of_response else ("info", True))
