"""Walks back from a bad step to the first change of the samples, and orders what changed into a chain."""
