"""The board: puts the panels on one page and keeps the selection in the URL."""
