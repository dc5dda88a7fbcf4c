"""A command whose options complete values that begin with a minus sign, such as ``--sort=-reward``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from typer.core import TyperCommand

#: Key of the words before the one that is completed, in the context's ``meta``.
_WORDS = "rlpanel.words"
#: The line that zsh, fish and PowerShell pass; bash passes words, and splits them at ``=``.
_LINE = "_TYPER_COMPLETE_ARGS"


class CompletingCommand(TyperCommand):
    """A command that completes a value, where click would offer options: it takes a minus sign for one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            param.shell_complete = partial(_whole_words, param.shell_complete)  # type: ignore[method-assign]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the one that is completed, and remember them."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the completions of an option's value, or of the names of options."""
        words: list[str] = [word for word in ctx.meta.get(_WORDS, []) if word != "="]
        name = _joined_option(incomplete).removesuffix("=") or next(reversed(words), "")
        for param in self.get_params(ctx):
            if name in param.opts and not getattr(param, "is_flag", False):
                return param.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


def _whole_words(complete: Callable[[Any, str], list[Any]], ctx: Any, incomplete: str) -> list[Any]:
    """Return completions that begin with the whole word: shells other than bash take no others."""
    option, found = _joined_option(incomplete), complete(ctx, incomplete)
    for item in found:
        item.value = f"{option}{item.value}"
    return found


def _joined_option(value: str) -> str:
    """Return the beginning of the completed word before its value, such as ``--sort=``; empty without one."""
    name, equals, rest = os.environ.get(_LINE, "").rpartition(" ")[2].partition("=")
    return name + equals if name.startswith("--") and rest == value else ""
