"""Tests: unit mirrors the package, property checks invariants, ui drives a browser, bench measures."""
