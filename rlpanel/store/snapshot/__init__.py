"""Snapshots: an immutable state of the columns, and statistics computed from it on demand."""
