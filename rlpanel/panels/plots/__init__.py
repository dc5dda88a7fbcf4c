"""Plots that several panels use, and the arrays they send to the browser."""
