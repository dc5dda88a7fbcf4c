"""Parses JSON lines into records, or into columns when lines have the same keys."""
