"""Measures `rlpanel bisect` on chains of changes with decoys, on healthy runs, and its time on a large run.

python -m tests.bench.chains [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.chains --each [SEEDS [KIND ...]]

Named: the first link is the cause, by its name or place. Its onset is right if it is at most three steps off.
The bad step that is asked about lies three steps after the last effect; `unasked` leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel.bisect.bisection import Bisection
from rlpanel.bisect.chain import bisect_run
from rlpanel.store.index.run_index import RunIndex
from tests.bench.bisect_runs.chain_kinds import HELD_BACK, HELD_BACK_2, HELD_BACK_3, KINDS, OPEN
from tests.bench.bisect_runs.chain_run import ChainRun
from tests.bench.finding_scores import open_folder
from tests.bench.harness import Figures, Task, run

#: Steps between the true onset and the first link's.
_NEAR = 3


@dataclass(frozen=True)
class ChainOutcome:
    """What a bisection says about a run.

    Attributes
    ----------
    kind : str
    named, near : bool
        Whether the first link is the cause, and whether its onset is right.
    text : str
    """

    kind: str
    named: bool
    near: bool
    text: str


def bisected(index: RunIndex, target: str = "reward", bad: int | None = None) -> Bisection:
    """Return the answer for a run."""
    *_, last = bisect_run(index, index.view, target, bad, now=index.view.snapshot.newest_line + 2)
    assert isinstance(last, Bisection)
    return last


def answer_of(made: ChainRun, *, asked: bool = True) -> Bisection:
    """Write a run, read it, and bisect it."""
    target = made.kind.target if made.kind is not None else "reward"
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        index = open_folder(made.write(Path(root) / "run"))
        return bisected(index, target, made.third + 4 if asked and made.kind is not None else None)


def try_chain(task: tuple[str, int, bool]) -> ChainOutcome:
    """Bisect a run of a kind, and compare the first link with the cause."""
    name, seed, asked = task
    made = ChainRun(KINDS[name], [seed, *name.encode()])
    found, kind = answer_of(made, asked=asked), KINDS[name]
    first = found.first
    named = first is not None and bool(re.search(kind.cause, f"{first.name} {first.place}"))
    near = first is not None and named and abs(first.step - 1 - made.onset) <= _NEAR
    text = f"seed {seed} onset {made.onset + 1}: {found.state} {found.sentence.text}"
    return ChainOutcome(name, named, near, text)


def try_healthy(task: tuple[int, bool]) -> str:
    """Return the state of the answer for a run in which nothing, or only decoys, changes."""
    seed, decoying = task
    return answer_of(ChainRun(None, [seed, 77], decoying=decoying)).state


def measure(task: Task) -> Figures:
    """Bisect runs of all kinds, healthy runs, and a large run."""
    seeds, healthy = task.pick((1, 4), (3, 20), (10, 100))
    figures: Figures = {}
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        sets = {"open": OPEN, "held back": HELD_BACK, "held back 2": HELD_BACK_2, "held back 3": HELD_BACK_3}
        for title, kinds in sets.items():
            for asked in (True, False):
                tasks = [(name, seed, asked) for name in kinds for seed in range(seeds)]
                outcomes = list(pool.map(try_chain, tasks))
                name = title if asked else f"{title}, unasked"
                figures |= {
                    f"{name}: runs": len(outcomes),
                    f"{name}: first cause named, %": 100 * float(np.mean([each.named for each in outcomes])),
                    f"{name}: and its onset right, %": 100 * float(np.mean([each.near for each in outcomes])),
                }
        for title, decoying in (("healthy", False), ("only decoys", True)):
            states = list(pool.map(try_healthy, [(seed, decoying) for seed in range(healthy)]))
            figures |= {
                f"{title}: runs": healthy,
                f"{title}: with a chain, %": 100 * states.count("chain") / healthy,
                f"{title}: with a change of the reward, %": 100 * (1 - states.count("noise") / healthy),
            }
    steps, samples = task.pick((60, 32), (300, 128), (1000, 512))
    return figures | time_of(task.folder, steps, samples)


def time_of(folder: Path, steps: int, samples: int) -> Figures:
    """Return the time of a bisection of a large run, without reading its lines."""
    last = min(steps, 100)
    made = ChainRun(KINDS["tool_errors"], [1, 5], sized=(last, samples // 8, 8))
    (folder / "large").mkdir()
    with (folder / "large" / "rollout_data_rank_0.jsonl").open("w", encoding="utf-8") as file:
        for at in range(steps - last):  # the steps before the cause, again and again
            for row in made.step_rows(at % made.onset):
                file.write(json.dumps(row | {"step": at + 1, "group": f"{at} {row['group']}"}) + "\n")
        for row in made.rows:
            file.write(json.dumps(row | {"step": row["step"] + steps - last}) + "\n")
    index = open_folder(folder / "large")
    began, cpu = time.perf_counter(), time.process_time()
    found = bisected(index, bad=made.third + 4 + steps - last)
    return {
        f"{steps:,} steps of {samples:,}: CPU s": time.process_time() - cpu,
        f"{steps:,} steps of {samples:,}: s": time.perf_counter() - began,
        f"{steps:,} steps of {samples:,}: links": len(found.links),
    }


def each_kind(seeds: int, chosen: Sequence[str]) -> None:
    """Print one line for each kind, and the answers that miss the cause."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        for name in chosen or KINDS:
            own = list(pool.map(try_chain, [(name, seed, True) for seed in range(seeds)]))
            named, near = sum(each.named for each in own), sum(each.near for each in own)
            print(f"{name:22} named {named} near {near}/{len(own)}")
            print("".join(f"      {each.text[:300]}\n" for each in own if not each.near), end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--each"]:
        each_kind(int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:])
    else:
        run(measure)
