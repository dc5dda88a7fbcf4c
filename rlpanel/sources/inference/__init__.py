"""Inference of a file's fields from a sample of its records: by names and by content, with a confidence."""
