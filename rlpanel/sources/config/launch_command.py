"""Settings of a launch command: options, overrides such as ``trainer.lr=1e-6``, and variables before it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*$")
_OPTION = re.compile(r"--?([A-Za-z][\w./-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-?\.?\d")
#: Words that end a command.
_ENDS = frozenset(("&&", "||", ";", "|", "&", ">", ">>", "2>&1", "<"))
#: Longer texts do not count as command lines.
MAX_TEXT = 64 << 10


def command_settings(text: str) -> dict[str, object]:
    """Return the settings of a shell script's commands; the last value of each name counts.

    A value that refers to a variable stays as it is written. Nothing is run.

    Parameters
    ----------
    text : str
        At most `MAX_TEXT` characters.
    """
    found: dict[str, object] = {}
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            words = line.split()
        found |= argument_settings(words)
    return found


def argument_settings(words: Iterable[str]) -> dict[str, object]:
    """Return the settings of a command's words, such as ``--lr 1e-6 --bf16 actor.lr=1e-6``."""
    found: dict[str, object] = {}
    waiting = ""
    for word in words:
        if word in _ENDS:
            waiting = ""
            continue
        option = None if _NUMBER.match(word) else _OPTION.fullmatch(word)
        if option is not None:
            name, value = option[1].replace("-", "_"), option[2]
            found[name] = True if value is None else value
            waiting = name if value is None else ""
            continue
        override = _OVERRIDE.fullmatch(word)
        if waiting and (found[waiting] is True or override is None):
            found[waiting] = word if found[waiting] is True else f"{found[waiting]} {word}"
            continue
        waiting = ""
        if override is not None:
            name = f"env.{override[1]}" if _VARIABLE.match(override[1]) else override[1]
            found[name] = override[2]
    return found
