"""False alarms and power of ``rlpanel gate`` in simulated trainings, and its time on large runs.

python -m tests.bench.gate [--repeats N] [--only NAME] [--speed]

Each setting has one to five baselines and a new run, three numbers, and runs that differ by their seed. A
false alarm is a new run of the same distribution that is found worse in any number. The power is the share
of new
runs that are found worse in a number after they were worsened by the size that the gate states for it.
``--speed`` times a gate of four runs of 1,000 steps with 512 samples each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel import open_run
from rlpanel.gate.gate_numbers import SEED_SHARE
from rlpanel.gate.run_series import align
from rlpanel.gate.spread_test import ALPHA, END, LAST, WHOLE, contrasts, detectable, holm, window_means
from rlpanel.metrics.reward import wilson
from rlpanel.queries.gate import gate_result

NUMBERS = 3
#: Standard deviation of single samples: rewards of 0 and 1.
SPREAD = 0.48


@dataclass(frozen=True)
class Setting:
    """How trainings differ.

    Attributes
    ----------
    baselines, steps, groups : int
    seed : float
        Standard deviation of a run's constant deviation.
    drift : float
        That of its deviation at the last step, which grows in proportion to the step.
    noise, like : float
        Standard deviation of a step's deviation, and the correlation of neighbouring steps.
    tails : str
        Distribution of the deviations by the seed: normal, t3, or lucky (one run in ten never learns).
    start : str
        ``late``: the curves rise at another step in each run.
    """

    baselines: int
    steps: int = 100
    groups: int = 16
    seed: float = 0.01
    drift: float = 0.0
    noise: float = 0.01
    like: float = 0.0
    tails: str = "normal"
    start: str = ""


SETTINGS = {
    "1 baseline": Setting(1),
    "1 baseline, correlated noise": Setting(1, like=0.8),
    "2 baselines": Setting(2),
    "3 baselines": Setting(3),
    "4 baselines": Setting(4),
    "5 baselines": Setting(5),
    "2 baselines, correlated noise": Setting(2, like=0.8),
    "3 baselines, correlated noise": Setting(3, like=0.8),
    "5 baselines, correlated noise": Setting(5, like=0.95),
    "2 baselines, no effect of the seed": Setting(2, seed=0.0),
    "3 baselines, no effect of the seed": Setting(3, seed=0.0),
    "5 baselines, no effect of the seed": Setting(5, seed=0.0),
    "5 baselines, no effect of the seed, correlated": Setting(5, seed=0.0, like=0.9),
    "2 baselines, large effect of the seed": Setting(2, seed=0.1),
    "3 baselines, large effect of the seed": Setting(3, seed=0.1),
    "5 baselines, large effect of the seed": Setting(5, seed=0.1),
    "2 baselines, drift by the seed": Setting(2, seed=0.0, drift=0.1),
    "3 baselines, drift by the seed": Setting(3, seed=0.0, drift=0.1),
    "5 baselines, drift by the seed": Setting(5, drift=0.1, like=0.8),
    "3 baselines, one group a step": Setting(3, groups=1),
    "4 baselines, 2 groups a step": Setting(4, groups=2),
    "4 baselines, 128 groups a step": Setting(4, groups=128),
    "4 baselines, 5 steps": Setting(4, steps=5),
    "4 baselines, 20 steps": Setting(4, steps=20),
    "4 baselines, 1,000 steps": Setting(4, steps=1000, like=0.9),
    "4 baselines, learning starts at another step": Setting(4, start="late"),
    "4 baselines, heavy tails of the seed (t3)": Setting(4, tails="t3"),
    "2 baselines, heavy tails of the seed (t3)": Setting(2, tails="t3"),
    "4 baselines, one run in ten never learns": Setting(4, tails="lucky"),
}
#: Settings whose deviations are not normal: the test's assumption does not hold.
HARD = {name for name, each in SETTINGS.items() if each.tails != "normal" or each.start}


def training(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a number by step, and the sampling variance of each step."""
    time_ = np.linspace(0, 1, setting.steps)
    begin = 0.3 + (0.1 * rng.normal() if setting.start else 0.0)
    rise = 0.4 / (1 + np.exp(-(time_ - begin) * 12))
    draw = rng.standard_t(3) if setting.tails == "t3" else rng.normal()
    if setting.tails == "lucky" and rng.random() < 0.1:
        rise = rise * 0.2
    mean = 0.3 + rise + setting.seed * draw + setting.drift * rng.normal() * time_
    steps = np.empty(setting.steps)
    steps[0], share = rng.normal(), np.sqrt(1 - setting.like**2)
    for at, rest in enumerate(rng.normal(size=setting.steps - 1), 1):
        steps[at] = setting.like * steps[at - 1] + share * rest
    sampled = 0.2 / np.sqrt(setting.groups)
    mean = mean + setting.noise * steps + sampled * rng.normal(size=setting.steps)
    free = setting.groups - 1
    variance = sampled**2 * rng.chisquare(free, setting.steps) / free if free else np.full(len(mean), np.nan)
    return mean, variance


def decided(series: list[list[tuple[np.ndarray, np.ndarray]]]) -> tuple[list[float], list[dict[str, float]]]:
    """Return the least corrected chance of each number, and the sizes that are stated for it."""
    steps = len(series[0][0][0])
    windows = align([np.arange(1.0, steps + 1)] * len(series[0]), 10)
    assert windows is not None
    found = []
    for runs in series:
        means, variances = map(list, zip(*runs, strict=True))
        found.append(contrasts(*window_means(windows, means, variances), "lower", SPREAD * SEED_SHARE))
    chances = holm([each.p for number in found for each in number])
    least, sizes, at = [], [], 0
    for number in found:
        least.append(min(chances[at : at + len(number)]))
        at += len(number)
        sizes.append({each.name: detectable(each, "lower", len(chances)) for each in number})
    return least, sizes


def simulate(setting: Setting, repeats: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return whether each repeat has a false alarm, and finds a worsening of the whole and of the end.

    The last value is the median of the stated size.
    """
    rng, hits, stated = np.random.default_rng(seed), np.zeros((repeats, 3), bool), []
    windows = align([np.arange(1.0, setting.steps + 1)], 10)
    assert windows is not None
    last = windows.place[0] >= windows.count - round(END * windows.count)
    for repeat in range(repeats):
        series = [[training(setting, rng) for _ in range(setting.baselines + 1)] for _ in range(NUMBERS)]
        chances, sizes = decided(series)
        hits[repeat, 0] = min(chances) < ALPHA
        stated.append(sizes[0][WHOLE])
        for column, (name, where) in enumerate(((WHOLE, np.ones_like(last)), (LAST, last)), 1):
            mean, variance = series[0][0]
            worse = [[(mean - where * sizes[0][name], variance), *series[0][1:]], *series[1:]]
            hits[repeat, column] = decided(worse)[0][0] < ALPHA
    return hits[:, 0], hits[:, 1], hits[:, 2], float(np.median(stated))


def _text(hits: np.ndarray) -> str:
    share = np.array([hits.mean()])
    low, high = wilson(share, np.array([len(hits)]))
    return f"{share[0]:6.1%} ({low[0]:.1%} to {high[0]:.1%})"


def write_large(folder: Path, steps: int, samples: int, seed: int) -> Path:
    """Write a run with groups of eight."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            rewards = (rng.random(samples) < 0.3 + 0.4 * step / steps).astype(float)
            kl = np.abs(rng.normal(0.02, 0.01, samples))
            for index in range(samples):
                line = {
                    "step": step, "prompt": f"question {(step * samples + index) // 8 % 4096}",
                    "response": "word " * 8, "reward": rewards[index], "kl": round(float(kl[index]), 5),
                    "group": str(index // 8),
                }  # fmt: skip
                file.write(json.dumps(line) + "\n")
    return folder


def speed() -> None:
    """Print the CPU seconds of opening four large runs, and of the gate."""
    with tempfile.TemporaryDirectory() as name:
        folders = [write_large(Path(name) / f"run{seed}", 1000, 512, seed) for seed in range(4)]
        for title in ("first", "with saved indexes"):
            began = time.process_time()
            runs = [open_run(folder, follow=False, jobs=0) for folder in folders]
            opened = time.process_time()
            new, *others = (run.data for run in runs)
            found = gate_result(new, others)
            print(
                f"{title}: opened in {opened - began:.1f} s CPU, gate in {time.process_time() - opened:.1f} "
                f"s CPU: {found.state}, {len(found.numbers)} numbers"
            )
            for run in runs:
                run.close()


def main() -> None:
    """Print the table, or the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--only", default="", help="settings whose name begins with this")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    print(
        f"{'setting':<48} {'false alarms':<24} {'power, whole':<24} {'power, end':<24} stated size (median)"
    )
    for at, (name, setting) in enumerate(SETTINGS.items()):
        if not name.startswith(options.only):
            continue
        alarm, whole, end, size = simulate(setting, options.repeats, at)
        if setting.baselines == 1:
            print(f"{name:<48} none by design: {_text(alarm)} differ beyond the noise within the runs")
            continue
        hard = " (hard)" if name in HARD else ""
        print(
            f"{name + hard:<48} {_text(alarm):<24} {_text(whole):<24} {_text(end):<24} {size:.3f}", flush=True
        )


if __name__ == "__main__":
    main()
