"""No rule fails on recorded runs of trainers, but for a few files whose numbers are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.lint.linter import LINT_RULES
from tests.unit.lint.linted_runs import by_name, linted, recorded, write

DATA = Path(__file__).parents[2] / "data"
UPSTREAM = DATA / "upstream"
#: Runs by trainer: what the trainer's own writer wrote.
RUNS = {
    "areal": UPSTREAM / "areal-1.0.4",
    "atropos": UPSTREAM / "atropos-0.4.0",
    "harbor": UPSTREAM / "harbor-0.26.0",
    "miles": UPSTREAM / "miles-31f1ca961",
    "nemo-gym": UPSTREAM / "gym-0.7.0",
    "nemo-rl": UPSTREAM / "nemo-rl-7ea279abf",
    "nemo-rl dapo": UPSTREAM / "dapo-nemo-rl-7ea279abf",
    "open-instruct": UPSTREAM / "open-instruct-e6c3044aa",
    "openpipe-art": UPSTREAM / "openpipe-art-0.5.23",
    "prime-rl": UPSTREAM / "prime-rl-559b44772",
    "ragen": UPSTREAM / "ragen-20daedc",
    "rllm": UPSTREAM / "rllm-9beb6e0f",
    "roll": UPSTREAM / "roll-8eb27cc2" / "rlvr",
    "roll agentic": UPSTREAM / "roll-8eb27cc2" / "agentic_native",
    "skyrl": UPSTREAM / "skyrl-a9564572e",
    "tinker-cookbook": UPSTREAM / "tinker-cookbook-9dfcc3a2",
    "trl": DATA / "trl",
    "trl tools": DATA / "trl_tools",
    "verifiers compaction": UPSTREAM / "verifiers-0.4.0" / "compaction",
    "verifiers fork": UPSTREAM / "verifiers-0.4.0" / "fork",
    "verl": UPSTREAM / "verl-0.9.1" / "dump",
    "verl recorded": UPSTREAM / "verl-0.9.1" / "recorded",
}
#: What is wrong with these files, so that the rule is right.
TRULY = {
    # The prompt is cut by its length, which the writer was given in characters.
    ("areal", "one_prompt"),
    # Made-up advantages: 0.5 for a reward of 0.
    ("nemo-rl", "advantage_formula"),
    # A made-up completion of two tokens.
    ("openpipe-art", "tokens_are_text"),
    # One completion written four times, with its own logprobs.
    ("trl tools", "completion_once"),
    # Made-up logprobs of the engine: all −0.5.
    ("verl recorded", "logprob_varies"),
}


@pytest.mark.parametrize("trainer", sorted(RUNS))
def test_recorded_files_pass(trainer: str) -> None:
    found = linted(RUNS[trainer])
    failed = {(trainer, result.rule.name) for result in found.results if result.state == "failed"}
    assert failed == {each for each in TRULY if each[0] == trainer}


@pytest.mark.parametrize("name", ["grpo_calculator", "grpo_couplets", "ppo_couplets"])
def test_real_training_passes(name: str, tmp_path: Path) -> None:
    """The first, middle and last steps of the runs, which hold all that the policy learned to write."""
    steps = (*range(1, 5), *range(18, 24), *range(37, 41), *range(57, 61))
    results = by_name(linted(write(tmp_path, recorded(name, steps))))  # type: ignore[arg-type]
    assert [rule for rule, result in results.items() if result.state == "failed"] == []
    passed = [rule for rule, result in results.items() if result.state == "passed"]
    assert len(passed) >= {"grpo_calculator": 25, "grpo_couplets": 20, "ppo_couplets": 12}[name]


def test_what_cannot_be_checked_says_what_to_log(tmp_path: Path) -> None:
    lines = [
        {"step": step, "prompt": f"{step} + {at}?", "response": str(step + at), "reward": 1.0}
        for step in range(3)
        for at in range(4)
    ]
    results = by_name(linted(write(tmp_path, lines)))
    assert results.keys() == LINT_RULES.keys()
    assert {rule for rule, result in results.items() if result.state == "failed"} == set()
    for result in results.values():
        assert result.state == "passed" or result.log, result.rule.name
    assert results["context_untrained"].log.startswith("messages (")
    assert "loss_mask (1 for tokens" in results["something_trained"].log
    assert results["mask_in_place"].state == results["engine_in_place"].state == "not checkable"
