"""Explanations of a change: shares of a step, contrasts of two sets of samples, clusters of responses."""
