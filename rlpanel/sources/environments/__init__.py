"""Formats that environments write themselves, without a trainer's steps: all their samples have step 0."""
