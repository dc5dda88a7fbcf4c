"""Prompts and responses as HTML, with the parts around the question folded."""
