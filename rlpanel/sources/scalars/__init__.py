"""Finds and reads the trainer's own scalars (loss, learning rate, ...); one module per file format."""
