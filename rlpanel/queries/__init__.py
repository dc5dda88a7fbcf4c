"""Questions to a run, each a function that returns a table: for `Run`, commands, agents and SQL."""
