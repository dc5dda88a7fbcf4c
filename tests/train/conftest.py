"""Training runs for tests, each made once, by the Python of the training environment (`make test-train`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / os.environ.get("TRAIN_VENV", ".venv-train")
#: No downloads, and two processes do not compete for two cores.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}
#: Makes a run of an algorithm with options; see the fixture `trained`.
Trained = Callable[..., tuple[Path, dict[str, Any]]]
LAST_TRL_WITH_PPO = TRAIN / "trl-1.12"


def start(algo: str, folder: Path, processes: int = 1, **options: Any) -> subprocess.Popen[str]:
    """Start a run; see `tests.train.job`."""
    folder.mkdir(parents=True, exist_ok=True)
    python = [str(TRAIN / "bin" / "python")]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    paths = [str(LAST_TRL_WITH_PPO)] * (algo == "ppo") + [str(ROOT)]
    with (folder / "stderr").open("w") as errors:
        return subprocess.Popen(
            [*python, "-m", "tests.train.job", algo, str(folder), json.dumps(options)],
            env=os.environ | QUIET | {"PYTHONPATH": os.pathsep.join(paths), "HF_HOME": str(folder / "hf")},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def finish(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    """Return the last output of a run after it ended successfully."""
    said, _ = process.communicate(timeout=150)
    assert process.returncode == 0, (folder / "stderr").read_text()[-3000:]
    return json.loads([line for line in said.splitlines() if line.startswith('{"losses"')][-1])


def train(algo: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Make a complete run."""
    return finish(start(algo, folder, **options), folder)


def lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines with the standard library's strict parser."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]


def rollouts(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all ranks."""
    files = sorted((folder / "run").glob("rollout_data_rank_*.jsonl"))
    return [row for path in files for row in lines(path)]


def logged(folder: Path, key: str) -> dict[int, float]:
    """Return one of the trainer's own metrics, by step."""
    return {row["step"]: row[key] for row in lines(folder / "run" / "scalars.jsonl") if key in row}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return a function that makes a recorded run once and returns its folder and last output."""
    runs: dict[str, tuple[Path, dict[str, Any]]] = {}

    def make(algo: str, **options: Any) -> tuple[Path, dict[str, Any]]:
        key = json.dumps([algo, options], sort_keys=True)
        if key not in runs:
            folder = tmp_path_factory.mktemp(algo)
            runs[key] = folder, train(algo, folder, **options)
        return runs[key]

    return make


@pytest.fixture(scope="session")
def grpo(trained: Trained) -> tuple[Path, dict[str, Any]]:
    """A recorded GRPO run with two micro-batches per step."""
    return trained("grpo")
