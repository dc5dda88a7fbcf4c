"""Backlog: reads large files that were written before the run was opened, in byte ranges."""
