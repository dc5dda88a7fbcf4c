"""slime's dumps as written by torch, converted by the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlpanel import open_run
from tests.train.conftest import ROOT, TRAIN

#: A dump of two samples, and one whose metadata is an object that only code can create.
MAKE = """
import pathlib, sys, torch
folder = pathlib.Path(sys.argv[1])
for kind in ("rollout_data", "train_data"):
    (folder / kind).mkdir(parents=True)
sample = {"group_index": 0, "prompt": "p", "tokens": [1, 2, 3], "response": "r", "response_length": 2,
          "reward": 0.5, "rollout_log_probs": [-0.1, -0.2], "status": "completed", "metadata": {}}
torch.save({"rollout_id": 7, "samples": [sample, sample | {"response": "s"}]}, folder / "rollout_data/7.pt")
trained = [{"rollout_position": at, "log_probs": torch.tensor([-1.0 - at, -2.0])} for at in (1, 0)]
torch.save({"format_version": 2, "samples": trained}, folder / "train_data/7.pt")
if len(sys.argv) > 2:
    odd = sample | {"metadata": {"path": pathlib.Path("x")}}
    torch.save({"rollout_id": 8, "samples": [odd]}, folder / "rollout_data/8.pt")
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in the environment that has torch."""
    return subprocess.run(
        [TRAIN / "bin" / "python", *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )


def convert(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from pathlib import Path; from rlpanel.sources.slime_convert import convert; "
    code += "print(convert(Path(sys.argv[1]), Path(sys.argv[1]) / 'rlpanel', trusted=len(sys.argv) > 2))"
    return run("-c", code, folder, *options)


def test_dumps_become_lines_and_are_joined(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path)
    first, again = convert(tmp_path), convert(tmp_path)
    assert "files=1, samples=2, kept=0" in first.stdout, first.stderr
    assert "files=0, samples=0, kept=1" in again.stdout, again.stderr
    with open_run(tmp_path / "rlpanel", follow=False) as opened:
        samples = [opened.sample(uid) for uid in opened.samples()["uid"]]
    assert [(sample.step, sample.response, sample.reward) for sample in samples] == [
        (7, "r", 0.5), (7, "s", 0.5),
    ]  # fmt: skip
    assert [sample.logprobs.tolist() for sample in samples if sample.logprobs is not None] == [
        [-1.0, -2.0], [-2.0, -2.0],
    ]  # fmt: skip
    assert samples[0].rollout_logprobs == pytest.approx([-0.1, -0.2])


def test_a_pickle_that_would_run_code_is_refused_until_it_is_trusted(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path, "odd")
    refused = convert(tmp_path)
    assert refused.returncode != 0
    assert "--trusted" in refused.stderr
    assert "files=1, samples=1" in convert(tmp_path, "trusted").stdout
