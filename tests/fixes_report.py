"""Reports which workarounds are still needed with the installed versions: ``python -m tests.fixes_report``.

A test with the marker ``upstream_fault`` shows that Panel's or Bokeh's own code is still wrong. It stands in
``tests/unit/panel_fixes/test_<module>.py``.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from docs.fixes import fixes

TESTS = Path(__file__).parent
CHECKS = TESTS / "unit" / "panel_fixes"
FRAMEWORK = ("panel", "bokeh", "holoviews", "tornado")
NEEDED, CAN_GO = "still needed", "can go"
UNCLEAR, NO_CHECK = "unclear: its check failed by another error", "no check: see its docstring"


class Outcomes:
    """Plugin of pytest that keeps what the checks of each workaround found."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {}

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Note whether a check passed, failed by an assertion, or by anything else."""
        marker = item.get_closest_marker("upstream_fault")
        name = marker.args[0] if marker and marker.args else item.path.stem.removeprefix("test_")
        outcome = NEEDED if call.excinfo is None else UNCLEAR
        if call.excinfo is not None and call.when == "call":
            gone = call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            outcome = CAN_GO if gone else UNCLEAR
        if call.when == "call" or outcome == UNCLEAR:
            self.found.setdefault(name, set()).add(outcome)


def check(*paths: Path) -> dict[str, str]:
    """Run the checks in folders or files, and return the answer for each workaround that has one."""
    outcomes = Outcomes()
    quiet = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest.main([*quiet, "-m", "upstream_fault", *map(str, paths)], plugins=[outcomes])
    order = (UNCLEAR, NEEDED, CAN_GO)
    return {
        name: next(each for each in order if each in said) for name, said in sorted(outcomes.found.items())
    }


def report(answers: dict[str, str]) -> list[str]:
    """Return one line for each workaround, also for those without a check."""
    return [f"panel_fixes/{path.name}: {answers.get(path.stem, NO_CHECK)}" for path in fixes()]


if __name__ == "__main__":
    answers = check(CHECKS)
    lines = [", ".join(f"{name} {version(name)}" for name in FRAMEWORK), *report(answers)]
    print(*lines, sep="\n")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            print(*(f"- {line}" for line in lines), sep="\n", file=file)
    sys.exit(0 if answers and UNCLEAR not in answers.values() else 1)
