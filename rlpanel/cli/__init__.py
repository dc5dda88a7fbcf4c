"""The command line interface ``rlpanel``."""

from rlpanel.cli.commands import app, main

__all__ = ["app", "main"]
