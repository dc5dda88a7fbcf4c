"""Finds the runs below a root and their files, and explains why other files are not read."""
