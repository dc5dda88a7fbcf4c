"""Cache on disk: saves the columns of a run, so that it opens quickly the next time."""
