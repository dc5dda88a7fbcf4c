"""Measures the findings on runs in kinds that public reports describe, and on healthy but odd ones.

python -m tests.bench.reported [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.reported --each [SEEDS [GROUP ...]]
python -m tests.bench.reported --show KIND SEED [FOLDER]

Found: a finding begins near the onset and is at least a warning. Named: its words, or those of its evidence
and symptoms, say the cause. Each group of kinds has figures of its own.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder
from tests.bench.harness import Figures, Task, run
from tests.bench.reported_runs.fresh_kinds import FRESH
from tests.bench.reported_runs.healthy_kinds import HEALTHY
from tests.bench.reported_runs.listed_kinds import LISTED
from tests.bench.reported_runs.outside_agent_kinds import OUTSIDE_AGENTS
from tests.bench.reported_runs.outside_healthy import OUTSIDE_HEALTHY
from tests.bench.reported_runs.outside_kinds import OUTSIDE
from tests.bench.reported_runs.simulation import Breakage, Simulation, made_run
from tests.bench.reported_runs.unlisted_kinds import UNLISTED

#: Broken kinds: of the review, of the authors of the rules, and of somebody who had not read the rules.
BROKEN: dict[str, dict[str, type[Breakage]]] = {
    "listed": LISTED,
    "kept apart": UNLISTED,
    "fresh": FRESH,
    "outside": OUTSIDE | OUTSIDE_AGENTS,
}
FINE: dict[str, dict[str, type[Breakage]]] = {"healthy": HEALTHY, "outside healthy": OUTSIDE_HEALTHY}
ALL = {name: kind for kinds in (*BROKEN.values(), *FINE.values()) for name, kind in kinds.items()}
#: Steps before the true onset in which a finding may begin.
_EARLY = 3


@dataclass(frozen=True)
class Outcome:
    """What the findings say about a run.

    Attributes
    ----------
    kind : str
    found, named : bool
    error : int or None
        Logged steps from the true onset to the finding's; None if it was not found.
    severities : tuple of str
        Severities of all leading findings.
    sentences : tuple of str
        Rule and sentence of each.
    """

    kind: str
    found: bool
    named: bool
    error: int | None
    severities: tuple[str, ...]
    sentences: tuple[str, ...]


def words_of(finding: Finding) -> str:
    """Return all that a finding says, with its symptoms."""
    own = (finding.title, finding.subject, finding.category, finding.sentence, *finding.evidence)
    return " ".join([*own, *(words_of(symptom) for symptom in finding.symptoms)])


def outcome(made: Simulation, found: Sequence[Finding]) -> Outcome:
    """Compare the findings of a run with what is wrong with it."""
    kind = made.kind
    assert kind is not None
    near: list[tuple[bool, int]] = []
    for finding in found:
        if finding.severity == "info":
            continue
        at = 0 if finding.onset is None else round((finding.onset - made.setup.first) / made.setup.every)
        error = at - made.onset
        if -_EARLY <= error <= kind.late:
            near.append((not re.search(kind.words, words_of(finding)), error))
    best = min(near, key=lambda each: (each[0], abs(each[1])), default=None)
    return Outcome(
        kind.__name__,
        best is not None,
        best is not None and not best[0],
        best[1] if best is not None else None,
        tuple(finding.severity for finding in found),
        tuple(f"{finding.rule} [{finding.onset}]: {finding.sentence}" for finding in found),
    )


def try_kind(task: tuple[str, int]) -> Outcome:
    """Write a run of a kind, check it, and compare."""
    name, seed = task
    made = made_run(ALL[name], seed)
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        made.write(Path(root) / name)
        return outcome(made, check_folder(Path(root) / name))


def figures_of(title: str, outcomes: Sequence[Outcome]) -> Figures:
    """Return the shares of found and named runs, and the error of the onset."""
    errors = [abs(each.error) for each in outcomes if each.error is not None]
    return {
        f"{title}: runs": len(outcomes),
        f"{title}: found, %": 100 * float(np.mean([each.found for each in outcomes])),
        f"{title}: named, %": 100 * float(np.mean([each.named for each in outcomes])),
        f"{title}: error of the onset, median": float(np.median(errors)) if errors else float("nan"),
    }


def figures_of_healthy(title: str, outcomes: Sequence[Outcome]) -> Figures:
    """Return the shares of healthy runs with alarms and warnings, and their rules."""
    shares: Figures = {
        f"{title}: {name}, %": 100 * float(np.mean([name in each.severities for each in outcomes]))
        for name in ("alarm", "warning")
    }
    rules = Counter(
        f"{title}: {severity}s of {sentence.split(' ', 1)[0]}"
        for each in outcomes
        for severity, sentence in zip(each.severities, each.sentences, strict=True)
        if severity != "info"
    )
    return {f"{title}: runs": len(outcomes)} | shares | dict(rules)


def measure(task: Task) -> Figures:
    """Check runs of all kinds."""
    seeds, healthy = task.pick((1, 18), (2, 72), (4, 216))
    figures: Figures = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for title, kinds in BROKEN.items():
            tasks = [(name, seed) for name in kinds for seed in range(seeds)]
            figures |= figures_of(title, list(pool.map(try_kind, tasks)))
        for title, kinds in FINE.items():
            names = [list(kinds)[number % len(kinds)] for number in range(healthy)]
            tasks = [(name, number) for number, name in enumerate(names)]
            figures |= figures_of_healthy(title, list(pool.map(try_kind, tasks)))
    return figures


def each(seeds: int, chosen: Sequence[str]) -> None:
    """Print one line for each kind of the chosen groups, all if none, and the findings of what was missed."""
    for title, kinds in (BROKEN | FINE).items():
        if chosen and title not in chosen:
            continue
        everything = []
        for name in kinds:
            outcomes = [try_kind((name, seed)) for seed in range(seeds)]
            everything += outcomes
            found, named = sum(o.found for o in outcomes), sum(o.named for o in outcomes)
            print(f"{title:10} {name:22} found {found}/{seeds} named {named}/{seeds}", flush=True)
            for one in outcomes:
                if title in FINE or not one.named:
                    pairs = zip(one.severities, one.sentences, strict=True)
                    print("".join(f"      {severity} {text}\n" for severity, text in pairs), end="")
        figures = (figures_of_healthy if title in FINE else figures_of)(title, everything)
        print(*(f"{name} {value:g}" for name, value in figures.items()), sep="\n", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        name, seed, *folder = sys.argv[2:]
        made = made_run(ALL[name], int(seed))
        with tempfile.TemporaryDirectory() as root:
            path = Path(folder[0] if folder else root) / f"{name}-{seed}"
            made.write(path)
            print(
                made.setup,
                f"onset {made.step_of(made.onset)}",
                *outcome(made, check_folder(path)).sentences,
                sep="\n",
            )
    elif sys.argv[1:2] == ["--each"]:
        each(int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:])
    else:
        run(measure)
