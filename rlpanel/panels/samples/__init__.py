"""The samples of a step or run: query bar, grid, lazily read texts."""
