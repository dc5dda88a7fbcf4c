"""Pairs of synthetic runs: the same settings with another seed, and one that is changed from a step on.

Both runs of a pair have the same prompts, labels and curriculum, as two trainings on one data set. Their
samples are drawn apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.bench.broken_runs.advantages import add_advantages
from tests.bench.broken_runs.kinds import KINDS
from tests.bench.broken_runs.realistic_run import draw_rewards, draw_samples, draw_tokens
from tests.bench.broken_runs.run_files import RunFiles
from tests.bench.broken_runs.run_setup import Setup, draw_setup
from tests.bench.broken_runs.sample_table import SampleTable

#: What both runs of an equal pair share: all prompts in the same steps, in other steps, or none.
FLAVOURS = ("same prompts", "other order", "other prompts")


@dataclass(frozen=True)
class RunPair:
    """Two runs, and the position of the first step at which the second differs; None if it never does."""

    here: SampleTable
    there: SampleTable
    onset: int | None

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both runs, and return their folders."""
        for name, table in (("a", self.here), ("b", self.there)):
            RunFiles(table, folder / name).write()
        return folder / "a", folder / "b"


def equal_pair(seed: int, flavour: str) -> RunPair:
    """Return two runs of the same settings with other seeds."""
    draw = np.random.default_rng([seed, *flavour.encode()])
    setup = draw_setup(draw, steps=(20, 90), samples=(32, 192))
    if flavour == "other order":  # a few epochs over the same prompts
        setup = replace(setup, prompts=max(setup.groups, setup.groups * len(setup.steps) // 3))
    data = int(draw.integers(1 << 30))
    second = data + 1 if flavour == "other prompts" else data
    order = int(draw.integers(1 << 30)) if flavour == "other order" else None
    return RunPair(_healthy(setup, draw, data, None), _healthy(setup, draw, second, order), None)


def changed_pair(kind: str, seed: int) -> RunPair:
    """Return a healthy run, and one of the same settings and prompts that breaks in a known way."""
    breakage = KINDS[kind](np.random.default_rng([seed, *kind.encode()]))
    draw = np.random.default_rng([seed, 1, *kind.encode()])
    data = int(draw.integers(1 << 30))
    there, _ = breakage.make(np.random.default_rng(data))
    return RunPair(_healthy(breakage.setup, draw, data, None), there, breakage.first)


def _healthy(setup: Setup, draw: np.random.Generator, data: int, order: int | None) -> SampleTable:
    table = draw_samples(setup, draw, np.random.default_rng(data), order)
    draw_tokens(table)
    draw_rewards(table)
    add_advantages(table)
    return table
