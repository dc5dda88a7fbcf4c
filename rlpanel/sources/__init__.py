"""Bytes in, records out: where runs lie, how their files grow, what their lines mean."""
