"""Backlog: reads the parts of large files that were written before the run was opened."""
