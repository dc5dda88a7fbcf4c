"""Tokens: heatmap, metric rows and ranking of the tokens of one response."""
