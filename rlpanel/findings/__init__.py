"""Findings: runs the rules over a snapshot and caches their results."""
