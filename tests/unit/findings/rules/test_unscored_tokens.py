"""Tokens without a finite logprob are left out of means, and a finding says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlpanel
from rlpanel.findings.check import findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings


def found(folder: Path, array: str) -> list[Finding]:
    """Return the findings on a run in which one token of step 3 has no number in an array."""
    lines = []
    for step in range(1, 5):
        for sample in range(4):
            row = {"step": step, "prompt": "p", "response": "ab", "response_tokens": ["a", "b"]}
            row |= {"logprobs": [-1.0, -2.0], "rollout_logprobs": [-1.0, -2.0], "reward": sample % 2}
            if step == 3 and sample == 1:
                row[array] = [-1.0, float("nan")]
            lines.append(json.dumps(row))
    (folder / "rollout.jsonl").write_text("\n".join(lines) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.steps.engine_log_ratio_mean.tolist() == [0.0] * 4
        every = findings(run.view, FindingSettings(), 2e9)
        [unscored] = [one for one in every if one.rule == "not_finite"]
        assert run.samples().query(unscored.where).step.tolist() == [3]
    return [unscored]


@pytest.mark.parametrize(
    ("array", "severity", "advice"),
    [
        ("rollout_logprobs", "warning", "The sampling engine could not score these tokens."),
        ("logprobs", "alarm", "Check the learning rate"),
    ],
)
def test_a_finding_names_the_array_and_counts_its_tokens(
    array: str, severity: str, advice: str, tmp_path: Path
) -> None:
    [finding] = found(tmp_path, array)
    assert finding.sentence == f"The array {array} has NaN, infinity or null in step 3."
    assert finding.evidence[0].startswith("1 tokens in 1 of 16 samples; means leave out these tokens")
    assert finding.advice.startswith(advice)
    assert (finding.severity, finding.steps) == (severity, (3,))
