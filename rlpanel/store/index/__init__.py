"""Index of one run: follows its files and publishes snapshots; driven by the reader thread."""
