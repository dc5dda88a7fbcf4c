"""Snapshots: an immutable state of the columns, and what is computed from it on demand."""
