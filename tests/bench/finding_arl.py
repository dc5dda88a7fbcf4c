"""Measures how often the findings warn in a stationary run, checked while it is written.

python -m tests.bench.finding_arl [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.finding_arl --show REGIME SEED [STEPS]

Nothing changes in these runs but what varies from step to step. An episode begins when a finding becomes a
warning or an alarm that was none in the check before. The average run length (ARL) is the number of steps
from one to the next, with the exact 95 % interval of a Poisson count. An episode is confirmed if it lasts as
alerts and `halt_on` require; a halt is a confirmed alarm.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel.checks.halt_watch import reason_to_halt
from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.raised import RaisedFindings, sure
from rlpanel.halt_file import HaltOn
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
from tests.bench.finding_scores import open_folder
from tests.bench.harness import Figures, Task, run
from tests.bench.reported_runs.simulation import Breakage, Sample, Setup, Simulation

#: Standard deviation of the skill (logit), and how much of it one step passes on to the next.
REGIMES = {"ordinary noise": (0.14, 0.85), "wandering skill": (0.35, 0.93)}
STEPS, EVERY = 2000, 5
#: Steps until a warning of the same finding counts as another one.
_APART = 25


class Stationary(Breakage):
    """Nothing changes."""

    always = True

    def behave(self, sample: Sample, x: float) -> None:
        sample.surprisal, sample.kl, sample.sentences = 0.7, 0.05, self.run.setup.sentences
        sample.sentences *= float(np.exp(self.draw.normal(0, 0.2)))


class StationaryRun(Simulation):
    """A run of 24 samples a step whose skill wanders around one level."""

    def __init__(self, regime: str, seed: int, steps: int) -> None:
        self.regime = regime
        setup = Setup(
            steps=steps, groups=6, group_size=4, sentences=3.0, logs=("labels", "truth"), scalars=False
        )
        super().__init__(setup, [seed, *regime.encode()], Stationary)

    def _curve(self) -> np.ndarray:
        spread, kept = REGIMES[self.regime]
        noise = self.draw.normal(0, spread * np.sqrt(1 - kept**2), self.setup.steps)
        skill = np.empty(self.setup.steps)
        level = float(self.draw.normal(0, spread))
        for at in range(self.setup.steps):
            level = kept * level + noise[at]
            skill[at] = 0.4 + level
        return skill


@dataclass(frozen=True)
class Episode:
    """A warning or alarm of a stationary run; ``kind`` is ``shown``, ``confirmed`` or ``halt``."""

    kind: str
    at: int
    severity: str
    rule: str
    sentence: str


def grown(made: Simulation, folder: Path, every: int) -> Iterator[int]:
    """Write a run ``every`` steps at a time, and yield the number of written steps."""
    folder.mkdir(parents=True)
    by_step: dict[int, list[str]] = {}
    for row in made.rows:
        by_step.setdefault(row["step"], []).append(json.dumps(row, ensure_ascii=False) + "\n")
    steps = sorted(by_step)
    for first in range(0, len(steps), every):
        part = steps[first : first + every]
        with (folder / "rollout_data_rank_0.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(line for step in part for line in by_step[step])
        yield first + len(part)


def watched(task: tuple[str, int, int]) -> tuple[list[Episode], float]:
    """Return the episodes of a stationary run, and the median CPU milliseconds of a check."""
    regime, seed, steps = task
    made = StationaryRun(regime, seed, steps)
    episodes: list[Episode] = []
    raised: dict[tuple[str, str], int] = {}
    times = []
    halts = HaltOn("alarm")

    def note(kind: str, finding: Finding, at: int) -> None:
        key = f"{kind} {finding.severity}", finding.key
        if at - raised.get(key, -_APART - 1) > _APART:
            episodes.append(Episode(kind, at, finding.severity, finding.rule, finding.sentence))
        raised[key] = at

    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        folder = Path(root) / "run"
        previous: CheckResult | None = None
        index: RunIndex | None = None
        for at in grown(made, folder, EVERY):
            if index is None:
                index = open_folder(folder)
            index.rescan()
            while index.read():
                pass
            began = time.process_time()
            previous = _checked(index, previous)
            times.append(time.process_time() - began)
            assert previous.raised is not None
            for finding in previous.findings:
                if finding.severity != "info":
                    note("shown", finding, at)
                certain = sure(finding, previous.raised.by_key)
                if certain is not None and certain.severity != "info":
                    note("confirmed", certain, at)
            steps = index.snapshot.steps.values[: previous.data_version[1]]
            if (halt := reason_to_halt(previous, steps, halts)) is not None:
                note("halt", Finding(severity="alarm", sentence=halt.sentence, rule=halt.rule), at)
    return episodes, 1e3 * float(np.median(times))


def _checked(index: RunIndex, previous: CheckResult | None) -> CheckResult:
    view = index.view
    now = view.snapshot.newest_line + 1.5
    return check(view, FindingSettings(), now, previous, index, RaisedFindings())


def interval(count: int, steps: int) -> tuple[float, float]:
    """Return the exact 95 % interval of the steps from one episode to the next (Garwood, 1936).

    Parameters
    ----------
    count : int
        Episodes that were seen.
    steps : int
        Steps that were watched.
    """
    most = _mean_for(lambda mean: _at_most(count, mean), 0.025)
    least = _mean_for(lambda mean: _at_most(count - 1, mean), 0.975) if count else 0.0
    return steps / most, steps / least if least else float("inf")


def _at_most(count: int, mean: float) -> float:
    """Return the probability that a Poisson number is at most ``count``."""
    terms = np.cumsum(np.log(np.arange(1, count + 1))) if count else np.empty(0)
    logs = np.arange(count + 1) * np.log(mean) - np.append(0.0, terms)
    return float(np.exp(logs - mean).sum())


def _mean_for(probability: Callable[[float], float], wanted: float) -> float:
    """Return the mean at which a falling probability has a value, by bisection."""
    low, high = 1e-9, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) > wanted else (low, middle)
    return low


def measure(task: Task) -> Figures:
    """Watch stationary runs of both regimes."""
    seeds, steps = task.pick((1, 100), (4, STEPS), (10, STEPS))
    figures: Figures = {}
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for regime in REGIMES:
            found = list(pool.map(watched, [(regime, seed, steps) for seed in range(seeds)]))
            figures |= figures_of(regime, found, seeds * steps)
    return figures


def figures_of(regime: str, found: Sequence[tuple[list[Episode], float]], steps: int) -> Figures:
    """Return the figures of a regime."""
    every = [episode for episodes, _ in found for episode in episodes]
    figures: Figures = {f"{regime}: steps": steps}
    for kind in ("shown", "confirmed", "halt"):
        count = sum(episode.kind == kind for episode in every)
        low, high = interval(count, steps)
        figures |= {
            f"{regime}: {kind}": count,
            f"{regime}: {kind}: ARL, steps (all steps if there was none)": steps / max(count, 1),
            f"{regime}: {kind}: ARL, 95 % from": low,
            f"{regime}: {kind}: ARL, 95 % to (-1: unbounded)": high if np.isfinite(high) else -1.0,
        }
    return figures | {f"{regime}: a check, CPU ms": float(np.median([ms for _, ms in found]))}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        regime, seed = sys.argv[2:4]
        episodes, ms = watched((regime, int(seed), int(sys.argv[4]) if len(sys.argv) > 4 else STEPS))
        for episode in episodes:
            print(f"after {episode.at}: {episode.kind} {episode.severity} {episode.rule}: {episode.sentence}")
        print(f"{len(episodes)} episodes; a check {ms:.0f} ms of CPU time")
    else:
        run(measure)
