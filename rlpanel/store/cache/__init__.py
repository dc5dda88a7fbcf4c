"""The cache on disk: saves the columns of a run, so that opening it again is quick."""
