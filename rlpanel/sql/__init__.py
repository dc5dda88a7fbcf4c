"""SQL over the tables of one run, and its samples as an Arrow table."""
