"""Comparison: two runs on the same prompts, and the text diff of two responses."""
