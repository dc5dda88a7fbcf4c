"""The command line interface ``rlpanel``."""

from typing import Any

from rlpanel.cli.commands import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    """Describe all commands only for a program that asks for ``app``."""
    if name == "app":
        from rlpanel.cli import commands

        return commands.app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
