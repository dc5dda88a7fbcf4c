"""Findings: runs the rules over a snapshot and caches what they report."""
