"""The kind of a column's signal is the one that is asked for, whatever was asked for before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rlpanel.findings.engine.signal import SIGNALS, column_signal


def test_a_kind_stays_what_it_is_whoever_asks_for_another_one() -> None:
    name = "a column of this test"
    try:
        level, factor = column_signal(name), column_signal(name, "positive")
        assert (level.kind, factor.kind) == ("level", "positive")
        assert column_signal(name) is level
        assert column_signal(name, "positive") is factor
        assert level.column == factor.column == name
    finally:
        for own in [own for own in SIGNALS if name in own]:
            del SIGNALS[own]


def test_a_column_has_the_name_of_a_rules_signal_before_the_rules_are_imported() -> None:
    script = """
from rlpanel.findings.engine.signal import SIGNALS, column_signal
from rlpanel.findings.engine.finding import Finding
import sys
assert "rlpanel.findings.rules" not in sys.modules
for name in ("truncated", "foreign_script", "duplicate"):
    column_signal(name)
import rlpanel.findings.rules
for name in ("truncated", "foreign_script", "duplicate"):
    assert column_signal(name) is not SIGNALS[name]
    assert column_signal(name).column == name
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["truncated", "mixed_prompts"])
def test_a_rules_signal_is_no_column(name: str) -> None:
    import rlpanel.findings.rules  # noqa: F401

    assert not SIGNALS[name].column
