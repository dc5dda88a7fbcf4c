"""Comparison: runs over the same prompts, and the difference between two responses."""
