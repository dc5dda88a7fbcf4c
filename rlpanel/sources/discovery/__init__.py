"""Discovery: which folders are runs, which files belong to them, and why others are not read."""
