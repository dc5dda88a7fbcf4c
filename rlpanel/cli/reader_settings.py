"""Passes reader settings from the command line to the reader, and prints what was not read or left out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rlpanel.cli.terminal_messages import say

if TYPE_CHECKING:
    from rlpanel.sources.files.file_access import Unread
    from rlpanel.store.snapshot.left_out import Omissions
    from rlpanel.store.snapshot.remarks import Remark


def set_reader_environment(
    keys: str | None, tokenizer: Path | None, follow_links: bool, step: int | None = None
) -> None:
    """Pass reader settings through the environment, so that worker processes get them as well.

    Invalid settings raise an error here, not when the first file is read.
    """
    from rlpanel.settings import Reading
    from rlpanel.sources.discovery.folder_config import from_settings

    set_environment({"MAP": keys, "TOKENIZER": str(tokenizer.resolve()) if tokenizer else None})
    set_environment({"STEP": None if step is None else str(step)})
    set_environment({"FOLLOW_LINKS": "1" if follow_links else None})
    from_settings(Reading.from_environment())


def set_environment(settings: dict[str, str | None]) -> None:
    """Set an environment variable ``RLPANEL_<name>`` for each setting that was given."""
    os.environ |= {f"RLPANEL_{name}": value for name, value in settings.items() if value}


def listed(unread: Sequence[Unread]) -> list[dict[str, str]]:
    """Return the files that were not read as JSON."""
    return [{"file": skipped.file, "reason": skipped.reason} for skipped in unread]


def say_unread(unread: Sequence[Unread]) -> None:
    """Print the files that were not read."""
    for skipped in unread:
        say(f"not read: {skipped.file}: {skipped.reason}", typer.colors.YELLOW)


def say_left_out(left: Omissions) -> None:
    """Print what the numbers leave out; files are named by `say_unread`."""
    if sentence := replace(left, unread_files=0).sentence:
        say(sentence, typer.colors.YELLOW)


def say_remarks(remarks: Sequence[Remark]) -> None:
    """Print what the numbers depend on and the files do not tell."""
    for remark in remarks:
        say(remark.sentence, typer.colors.YELLOW)
