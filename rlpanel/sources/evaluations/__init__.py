"""Reads logs of evaluation harnesses: Harbor's trials, agents' trajectories in ATIF, and Inspect's logs."""
