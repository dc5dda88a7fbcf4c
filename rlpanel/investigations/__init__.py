"""Investigations: reports of claims about a run, kept in its folder and evaluated again at each load."""
