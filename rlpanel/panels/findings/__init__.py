"""Findings on the screen: the badge in the header and the list with evidence."""
