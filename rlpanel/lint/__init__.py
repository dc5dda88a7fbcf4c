"""Lint rules prove for each sample that what was trained is what was sampled, or say what is not logged."""
