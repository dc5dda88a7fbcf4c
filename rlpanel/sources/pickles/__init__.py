"""Pickles of torch are read without torch, and without running code of the file."""
