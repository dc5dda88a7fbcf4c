"""The public files and variants that do not open right yet: ``tests/data/public/known.json``.

``python -m tests.known_public`` opens all of them and writes the table anew. The tests hold it in both
directions: what is not in it opens right, and what is in it does not.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from tests.plain_reader import FOLDER, expected
from tests.public_runs import Verdict, judge
from tests.public_variants import Variant, chance, variants

TABLE = FOLDER / "known.json"
#: Variants that the tests open; the benchmark opens all.
TRIED = 150


def known() -> dict[str, str]:
    """Name of a file or variant to what is wrong with it."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


@cache
def tried() -> list[Variant]:
    """Return the variants that the tests open: some of each file, the same each time."""
    found = sorted(variants(), key=lambda variant: chance("tried", variant.name))
    return found[:TRIED]


def main() -> None:
    """Write the table of what does not open right now."""
    verdicts: dict[str, Verdict] = {name: judge(FOLDER / name, each) for name, each in expected().items()}
    with tempfile.TemporaryDirectory() as folder:
        for at, variant in enumerate(tried()):
            verdicts[variant.name] = judge(variant.write(Path(folder) / str(at)), variant.expected)
    table = {
        name: f"{verdict.kind}: {verdict.short}"
        for name, verdict in verdicts.items()
        if verdict.kind != "right"
    }
    TABLE.write_text(json.dumps(table, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(verdicts) - len(table)} of {len(verdicts)} open right")


if __name__ == "__main__":
    main()
