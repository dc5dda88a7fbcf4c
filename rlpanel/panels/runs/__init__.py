"""All runs below the root as one table: what each does, what is wrong with it, and how it differs."""
