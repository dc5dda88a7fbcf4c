"""Queries over a run's samples: filters, text search, sort order, groups, notes and export."""
