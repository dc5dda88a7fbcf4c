"""Reads new bytes of growing files, splits them into lines and parses the lines into records."""
