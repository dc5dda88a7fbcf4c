"""Queries: filters, text search, order, groups, notes and export of samples."""
