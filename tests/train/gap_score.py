"""Says how often the cause of the runs that `gap_runs` wrote is named right.

python -m tests.train.gap_score FOLDER

It needs rlpanel, and neither torch nor transformers. A run of two causes is right if none is named, and a
healthy one if nothing but precision is.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import rlpanel
from rlpanel.drift.gap_causes import verdict
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens

#: Name of the run without its seed → the cause that must be named; "" for none.
EXPECTED = {
    "precision_bf16": "precision",
    "precision_int8": "precision",
    "precision_moe": "precision",
    "healthy_tool": "precision",
    "temperature": "temperature",
    "temperature_without_entropy": "temperature",
    "support": "support",
    "shift": "shift",
    "template": "template",
    "mask": "mask",
    "stale": "stale",
    "sync": "sync",
    "sync_layer": "sync",
    "rank": "sync",
    "position": "position",
    "routing": "routing",
    "mixed_stale_int8": "",
    "mixed_temperature_position": "",
}


def named(folder: Path) -> str:
    """Return the key of the cause that a run's tokens show."""
    with rlpanel.open_run(folder, follow=False) as run:
        *_, tokens = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot))
    assert isinstance(tokens, GapTokens)
    return verdict(tokens).cause


def main(folder: str) -> None:
    """Print a line for each kind: expected cause, runs that are right, and what was named instead."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(Path(folder).glob("*-*")):
        kind = path.name.rpartition("-")[0]
        if path.is_dir() and kind in EXPECTED:
            found[kind][named(path)] += 1
    for kind, counts in found.items():
        wanted = EXPECTED[kind]
        others = {key or "not told": count for key, count in counts.items() if key != wanted}
        print(f"{kind:30} {wanted or 'not told':12} {counts[wanted]:3} of {counts.total():3}  {others or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
