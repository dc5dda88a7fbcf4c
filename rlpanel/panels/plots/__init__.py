"""Plots that several panels share, and the data that they send to the browser."""
