"""The index of one run: follows its files and commits snapshots; the reader thread drives it."""
