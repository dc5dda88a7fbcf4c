"""Measures the rule *Something changed* alone: what it finds, and its false alarms in stationary runs.

python -m tests.bench.unnamed_changes [--against PATH] [--rounds N] [--size SIZE] [--record]

A stationary run learns nothing: its skill is an autoregressive walk around one level, in an ordinary and in a
wandering regime, with 24 samples a step. Each finding of the rule in it is a false alarm.
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rlpanel.findings.check import check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.settings import FindingSettings
from tests.bench.finding_scores import open_folder
from tests.bench.harness import Figures, Task, run
from tests.bench.reported import ALL, outcome
from tests.bench.reported_runs.healthy_kinds import HEALTHY, Plain
from tests.bench.reported_runs.simulation import Setup, Simulation, made_run

_NAME = "something_changed"
#: Innovations of the walk in the two regimes, and the steps of a stationary run.
_REGIMES = {"ordinary": 0.074, "wandering": 0.18}
_STEPS = 300
_STATIONARY: dict[str, Any] = {
    "steps": _STEPS,
    "groups": 6,
    "group_size": 4,
    "prompts": 2000,
    "start": 0.5,
    "gain": 0.0,
    "growth": 1.0,
}


def found_alone(made: Simulation) -> list[Finding]:
    """Return what the rule finds in a run while all other rules are off."""
    others = {name: RULES.pop(name) for name in list(RULES) if name != _NAME}
    try:
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
            made.write(Path(root) / "run")
            index = open_folder(Path(root) / "run")
            return check(
                index.view, FindingSettings(), index.view.snapshot.newest_line + 1.5, index=index
            ).findings
    finally:
        RULES.update(others)


def find_kind(task: tuple[str, int]) -> tuple[bool, bool, bool]:
    """Return if a run is found, if a finding is near the onset at all, and if there is a warning."""
    made = made_run(ALL[task[0]], task[1])
    found = found_alone(made)
    near = any(abs((each.onset or 0) - made.step_of(made.onset)) <= made.setup.every * 8 for each in found)
    return outcome(made, found).found, near, any(each.severity != "info" for each in found)


def find_stationary(task: tuple[float, int]) -> int:
    """Return the number of findings in a stationary run."""
    walk, seed = task
    return len(found_alone(Simulation(Setup(**_STATIONARY, walk=walk), [seed, 11], Plain)))


def measure(task: Task) -> Figures:
    """Check runs of all kinds, and stationary ones, with this rule only."""
    seeds, runs = task.pick((1, 1), (1, 4), (2, 20))
    figures: Figures = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for title, kinds in (("broken", [each for each in ALL if each not in HEALTHY]), ("healthy", HEALTHY)):
            found = list(pool.map(find_kind, [(name, seed) for name in kinds for seed in range(seeds)]))
            shares = 100 * np.mean(found, axis=0)
            figures |= {f"{title}: runs": len(found)}
            if title == "broken":
                figures |= {"broken: found, %": shares[0], "broken: found, infos too, %": shares[1]}
            else:
                figures |= {"healthy: with a warning, %": shares[2]}
        for name, walk in _REGIMES.items():
            alarms = sum(pool.map(find_stationary, [(walk, seed) for seed in range(runs)]))
            figures |= {f"{name}: steps": runs * _STEPS, f"{name}: false alarms": alarms}
    return figures


if __name__ == "__main__":
    run(measure)
