"""The command ``top``: the screens of `rlpanel.terminal_ui` in a terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rlpanel.cli import completion
from rlpanel.cli.reader_settings import set_reader_environment
from rlpanel.cli.shared_options import DefaultStep, FollowLinks, Map, Tokenizer
from rlpanel.errors import SettingError
from rlpanel.extra_packages import install_command


def top(
    root: Annotated[
        str,
        typer.Argument(
            help="Folder that holds runs, at any depth, or the folder of a run.",
            metavar="ROOT",
            autocompletion=completion.runs,
        ),
    ] = ".",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Watch runs in the terminal, live: curves, findings, samples, tokens; it needs the extra tui."""
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    try:
        import textual  # noqa: F401
    except ImportError as error:
        raise SettingError(f"top needs the package textual: {install_command('tui')}") from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SettingError("top needs a terminal; rlpanel runs, findings and tail print to pipes")
    from rlpanel.sources.discovery.directory import Directory
    from rlpanel.sources.files.file_access import path_of
    from rlpanel.terminal_ui.top_app import run_top

    folder = path_of(root).resolve()
    is_run = Directory(folder).is_run(folder)  # raises if the folder does not exist
    run_top(str(folder.parent if is_run else folder), str(folder) if is_run else "")


COMMANDS = {top: "rlpanel top runs"}
