"""Notebook: frames a single panel in a cell and binds it to a run."""
