"""The command line interface ``rlpanel``."""

import gc
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    Nothing is collected until the command runs: importing makes no garbage, and looking for it takes a tenth
    of the time of a short command.
    """
    gc.disable()
    from rlpanel.cli import commands

    commands.main()


def __getattr__(name: str) -> Any:
    """Describe all commands only for a program that asks for ``app``."""
    if name == "app":
        from rlpanel.cli import commands

        return commands.app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
