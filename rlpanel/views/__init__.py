"""A snapshot and a selection become something to see."""
