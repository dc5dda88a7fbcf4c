"""The kind of a column's signal is that of the rules, whoever asked for the column first."""

from __future__ import annotations

from rlpanel.findings.engine.signal import SIGNALS, column_signal


def test_the_kind_that_a_rule_names_counts_whoever_asked_first() -> None:
    name = "a column of this test"
    try:
        assert column_signal(name).kind == "level"
        assert column_signal(name, "positive").kind == "positive"
        assert column_signal(name).kind == "positive"
    finally:
        del SIGNALS[name]
