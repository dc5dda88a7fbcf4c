"""The part *Where they part* of the page *Compare*."""
