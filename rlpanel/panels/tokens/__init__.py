"""Tokens: token view of one response (text, metric heatmap, lines) and ranking of a step's tokens."""
