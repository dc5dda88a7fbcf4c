"""The board's language: catalogues of translated labels, and the language of each session."""
