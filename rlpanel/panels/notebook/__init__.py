"""Notebook: frame around a panel in a cell, and context that follows a run."""
