"""Sources: finds runs below a root, watches their files and parses lines into records."""
