"""Samples of a step or run: query bar, grid, and texts that are read on demand."""
