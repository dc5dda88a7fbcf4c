"""Readers: new bytes of a growing file become lines, and lines become records."""
