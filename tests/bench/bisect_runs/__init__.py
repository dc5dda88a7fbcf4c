"""Runs in which a cause has an effect and that has another, with changes beside them that explain nothing."""
