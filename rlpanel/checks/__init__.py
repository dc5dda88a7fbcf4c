"""Checks in the background: runs that nobody opened are read and checked while the server is idle."""
