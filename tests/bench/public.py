"""Measures which share of public files, and of variants of them, opens right without an option.

``python -m tests.bench.public`` prints the shares; ``--each`` prints every folder that does not open right;
``--docs`` writes the tables of docs/formats.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from docs.generate import between
from tests.bench.harness import CHECKOUT, Figures, Task, run
from tests.plain_reader import FOLDER, expected, sources
from tests.public_runs import VERDICTS, Verdict, judge
from tests.public_variants import TOTAL, Variant, variants

PAGE = CHECKOUT / "docs" / "formats.md"
Files = dict[str, Verdict]
Derived = Sequence[tuple[Variant, Verdict]]


def judged(folder: Path, total: int = TOTAL) -> tuple[Files, Derived]:
    """Open all public files, and so many variants, which are written below a folder."""
    files = {name: judge(FOLDER / name, numbers) for name, numbers in expected().items()}
    derived = [
        (variant, judge(variant.write(folder / f"variant-{at}"), variant.expected))
        for at, variant in enumerate(variants(total))
    ]
    return files, derived


def measure(task: Task) -> Figures:
    """Return shares in per cent, and the time for each folder."""
    begun = time.process_time()
    files, derived = judged(task.folder, task.pick(40, TOTAL, TOTAL))
    took = time.process_time() - begun
    figures = {
        f"public files, {kind}, %": _share(v.kind == kind for v in files.values()) for kind in VERDICTS
    }
    figures |= {f"variants, {kind}, %": _share(v.kind == kind for _, v in derived) for kind in VERDICTS}
    for group in ("container", "keys"):
        for name, right in _by(derived, group):
            figures[f"{group}: {name}, right, %"] = _share(right)
    return figures | {"CPU ms a folder": took * 1000 / (len(files) + len(derived))}


def tables(files: Files, derived: Derived) -> str:
    """Return the shares as the tables of the documentation."""
    origin = {
        "writer": "made by its writer",
        "package": "cut from a package",
        "shape": "in a public file's shape",
    }
    kinds = {name: origin[source["origin"]] for name, source in sources().items()}
    lines = [f"| | folders | {' | '.join(VERDICTS)} |", "|---|---|" + "---|" * len(VERDICTS)]
    groups: list[tuple[str, list[Verdict]]] = [("**public files**", list(files.values()))]
    groups += [(k, [files[n] for n in files if kinds[n] == k]) for k in origin.values()]
    groups += [("**variants of them**", [verdict for _, verdict in derived])]
    for name, verdicts in groups:
        count = Counter(verdict.kind for verdict in verdicts)
        shares = " | ".join(f"{100 * count[kind] / len(verdicts):.1f} %" for kind in VERDICTS)
        lines.append(f"| {name} | {len(verdicts):,} | {shares} |")
    for title, group in (("the file", "container"), ("the keys and values", "keys")):
        lines += ["", f"| variant of {title} | folders | right |", "|---|---|---|"]
        lines += [f"| {name} | {len(right)} | {_share(right):.0f} % |" for name, right in _by(derived, group)]
    return "\n".join(lines)


def _by(derived: Derived, group: str) -> list[tuple[str, list[bool]]]:
    """Return whether each variant opens right, by its container or by the change of its keys."""
    found: dict[str, list[bool]] = {}
    for variant, verdict in derived:
        found.setdefault(getattr(variant, group), []).append(verdict.kind == "right")
    return sorted(found.items())


def _share(found: Iterable[bool]) -> float:
    values = list(found)
    return 100 * sum(values) / len(values)


def main() -> None:
    """Print each folder that does not open right, or write the documentation's tables."""
    with tempfile.TemporaryDirectory() as folder:
        files, derived = judged(Path(folder))
    if "--docs" in sys.argv:
        PAGE.write_text(between(PAGE.read_text("utf-8"), "public", tables(files, derived)), "utf-8")
        return
    for name, verdict in [*files.items(), *((variant.name, verdict) for variant, verdict in derived)]:
        if verdict.kind != "right":
            print(f"{verdict.kind:8}{name:70} {verdict.why[:200]}")
    print(dict(Counter(verdict.kind for verdict in [*files.values(), *(v for _, v in derived)])))


if __name__ == "__main__":
    main() if {"--each", "--docs"} & set(sys.argv) else run(measure)
