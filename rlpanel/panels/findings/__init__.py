"""Findings on screen: the badge in the header and the list with evidence."""
