"""Measures where two runs part: ``python -m tests.bench.diverge [--held] [--kind KIND SEED] [FOLDER]``.

Equal pairs have the same settings and other seeds; changed ones break in a known way from a step on. Kinds in
`HELD`, and the seeds of ``--held``, were not looked at before the figures were recorded. Pairs are kept in
FOLDER, so that they are made once.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rlpanel.divergence.run_divergence import ComparedSide, Divergence, find_divergence, sentence
from tests.bench.broken_runs.kinds import KINDS
from tests.bench.broken_runs.run_pairs import FLAVOURS, changed_pair, equal_pair
from tests.bench.finding_scores import open_folder

#: Kinds that begin at a step, half of them held back.
_STARTING = [name for name, kind in KINDS.items() if kind.shape in ("cliff", "slide")]
LOOKED_AT, HELD = _STARTING[::2], _STARTING[1::2]
#: First seed of the pairs that were looked at, and of those that were held back.
_SEED, _HELD_SEED = 100, 5000
#: Equal pairs, and pairs of the kinds that were looked at.
_EQUAL, _KNOWN = 48, 26


@dataclass(frozen=True)
class PairOutcome:
    """Result for a pair: position of the true onset, and of the one that was found; None without one."""

    name: str
    seed: int
    truth: int | None
    found: int | None
    first: str
    sentence: str
    seconds: float

    @property
    def error(self) -> int | None:
        """Steps from the true onset to the one that was found."""
        return None if self.truth is None or self.found is None else self.found - self.truth


def compare_folders(here: Path, there: Path, align: str = "step") -> Divergence:
    """Return where the run of one folder leaves that of another."""
    sides = [ComparedSide(index, index.view) for index in (open_folder(here), open_folder(there))]
    *_, found = find_divergence(sides[0], sides[1], align)  # type: ignore[arg-type]
    return found


def try_pair(task: tuple[str, int, str]) -> PairOutcome:
    """Make a pair unless it is there, and compare its runs."""
    name, seed, keep = task
    made = equal_pair(seed, name) if name in FLAVOURS else changed_pair(name, seed)
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as made_in:
        folder = (Path(keep) if keep else Path(made_in)) / f"{name.replace(' ', '_')}-{seed}"
        folders = (folder / "a", folder / "b") if folder.exists() else made.write(folder)
        begin = time.process_time()
        found = compare_folders(*folders)
        seconds = time.process_time() - begin
    first = found.partings[0] if found.partings else None
    onset = None
    if first is not None and found.pairs is not None:
        step = int(found.pairs.first_there[first.onset])
        onset = list(made.there.setup.steps).index(step)
    title = first.stream.stream.name if first else ""
    return PairOutcome(name, seed, made.onset, onset, title, sentence(found), seconds)


def tasks(*, held: bool, keep: str = "") -> list[tuple[str, int, str]]:
    """Return the pairs: 45 equal ones, and changed ones of the kinds looked at or of all kinds."""
    seed = _HELD_SEED if held else _SEED
    equal = [(FLAVOURS[at % 3], seed + at, keep) for at in range(_EQUAL)]
    known = [(kind, seed, keep) for kind in LOOKED_AT[:_KNOWN]]
    return equal + known + ([(kind, seed, keep) for kind in HELD] if held else [])


def report(outcomes: Iterable[PairOutcome]) -> str:
    """Return the figures of some pairs as text."""
    listed = list(outcomes)
    equal = [each for each in listed if each.truth is None]
    lines = [f"equal pairs without a difference: {sum(e.found is None for e in equal)} of {len(equal)}"]
    for title, kinds in (("looked at", LOOKED_AT), ("held back", HELD)):
        changed = [each for each in listed if each.name in kinds]
        if changed:
            found = [each for each in changed if each.found is not None]
            near = [each for each in found if each.error is not None and abs(each.error) <= 3]
            lines.append(
                f"changed pairs of kinds {title}: {len(found)} of {len(changed)} found, onset within 3 steps "
                f"in {len(near)} of {len(found)}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    given = sys.argv[1:]
    is_held = "--held" in given
    if "--kind" in given:
        at = given.index("--kind")
        chosen = [(given[at + 1], int(given[at + 2]), given[at + 3] if len(given) > at + 3 else "")]
    else:
        chosen = tasks(held=is_held, keep=next((each for each in given if not each.startswith("--")), ""))
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(try_pair, chosen))
    for each in results:
        print(
            each.name,
            each.seed,
            "|",
            each.truth,
            each.found,
            each.first,
            "|",
            each.sentence,
            f"{each.seconds:.1f} s",
        )
    print(report(results))
