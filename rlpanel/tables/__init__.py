"""Tables of a run as plain values with declared columns, for the command line, agents and scripts."""
