"""Measures which share of public files, and of variants of them, opens right without an option.

``python -m tests.bench.public`` prints the share by container and by change of the keys; with ``--each`` it
prints every folder that does not open right.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.bench.harness import Figures, Task, run
from tests.plain_reader import FOLDER, expected
from tests.public_runs import VERDICTS, Verdict, judge
from tests.public_variants import TOTAL, Variant, variants


def judged_files() -> Iterator[tuple[str, Verdict]]:
    """Yield the verdict on each public file."""
    for name, numbers in expected().items():
        yield name, judge(FOLDER / name, numbers)


def judged_variants(task: Task, chosen: Iterable[Variant]) -> Iterator[tuple[Variant, Verdict]]:
    """Yield the verdict on each variant, which is written, opened and removed."""
    for at, variant in enumerate(chosen):
        folder = variant.write(task.folder / str(at))
        yield variant, judge(folder, variant.expected)
        shutil.rmtree(folder)


def measure(task: Task) -> Figures:
    """Return shares in per cent, and the time for each folder."""
    begun = time.process_time()
    files = dict(judged_files())
    derived = list(judged_variants(task, variants(task.pick(40, TOTAL, TOTAL))))
    took = time.process_time() - begun
    figures = {
        f"public files: {kind}, %": _share(v.kind == kind for v in files.values()) for kind in VERDICTS
    }
    figures["variants"] = float(len(derived))
    figures |= {f"variants: {kind}, %": _share(v.kind == kind for _, v in derived) for kind in VERDICTS}
    for group in ("container", "keys"):
        by_group = defaultdict(list)
        for variant, verdict in derived:
            by_group[getattr(variant, group)].append(verdict.kind == "right")
        figures |= {f"{group}: {name}, right, %": _share(by_group[name]) for name in sorted(by_group)}
    return figures | {"CPU ms a folder": took * 1000 / (len(files) + len(derived))}


def _share(found: Iterable[bool]) -> float:
    values = list(found)
    return 100 * sum(values) / len(values)


def _print_each() -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        task = Task(Path(folder), Path(folder), "full")
        found = [(name, verdict) for name, verdict in judged_files()]
        found += [(variant.name, verdict) for variant, verdict in judged_variants(task, variants())]
    for name, verdict in found:
        if verdict.kind != "right":
            print(f"{verdict.kind:8}{name:70} {verdict.why[:200]}")
    print(dict(Counter(verdict.kind for _, verdict in found)))


if __name__ == "__main__":
    _print_each() if "--each" in sys.argv else run(measure)
