"""Benchmark of `rlpanel lint`: 100,000 samples of 1,000 tokens, read and checked by all rules.

``python -m tests.bench.lint [--size tiny|full]`` times the index and the lint apart, with the peak memory.
"""
