"""Columns in memory: rows of samples, statistics by step, restarts, splits."""
