"""The command line."""

from rlpanel.cli.commands import app, main

__all__ = ["app", "main"]
