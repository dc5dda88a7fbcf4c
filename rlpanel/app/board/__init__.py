"""The board: puts the panels on one page and keeps the selection and the URL in sync."""
