"""Finds the runs below a root, watches their files and parses their lines into records."""
