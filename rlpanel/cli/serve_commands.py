"""The commands ``serve | demo | app-path``: the board in a browser."""

from __future__ import annotations

import os
import signal
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from rlpanel.board_url import USUAL_PORT
from rlpanel.cli.options import (
    AlertCommand,
    AlertSeverity,
    AlertUrl,
    EmbedIn,
    FollowLinks,
    Host,
    Map,
    MaxPages,
    Origin,
    Port,
    ReadOnly,
    Show,
    Token,
    Tokenizer,
    Watch,
)
from rlpanel.cli.reader_settings import set_environment, set_reader_environment
from rlpanel.cli.serving import folder_of, serve_board

#: Most pages that are built ahead, for the next visitors.
_SPARE_PAGES = 2


def demo(
    host: Host = "127.0.0.1",
    port: Port = USUAL_PORT,
    show: Show = None,
    seconds_per_step: Annotated[
        float, typer.Option(min=0.0, help="Seconds that each step of the replayed training takes.")
    ] = 1.0,
    token: Token = None,
    origin: Origin = None,
    read_only: ReadOnly = False,
    max_pages: MaxPages = 0,
    embed_in: EmbedIn = None,
) -> None:
    """Open the board on two recorded runs: a finished one, and one that grows like a live training run.

    A browser is opened if there is a screen; --no-show prevents it.
    """
    _exit_on_sigterm()
    from rlpanel.app.demo import Demo
    from rlpanel.app.server.access import Access

    show = _has_screen() if show is None else show
    at = Access(host, port, "", tuple(origin or ()), show, **_public(read_only, max_pages, embed_in))
    with Demo(seconds_per_step) as run:
        serve_board(run.root, at, token)


def serve(
    root: Annotated[
        str | None,
        typer.Argument(
            help="Folder that holds runs, local or remote (s3://bucket/runs), or the name of an experiment "
            "(EXP_NAME).",
            show_default="$RLPANEL_ROOT, then ./rollout_samples",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = USUAL_PORT,
    show: Show = False,
    token: Token = None,
    origin: Origin = None,
    keys: Map = None,
    tokenizer: Tokenizer = None,
    watch: Watch = None,
    follow_links: FollowLinks = False,
    alert_url: AlertUrl = None,
    alert_command: AlertCommand = None,
    alert_severity: AlertSeverity = None,
    read_only: ReadOnly = False,
    max_pages: MaxPages = 0,
    embed_in: EmbedIn = None,
) -> None:
    """Serve the board for the runs below a folder, updated live while training appends to them."""
    set_reader_environment(keys, tokenizer, follow_links)
    alerts = {"ALERT_URL": alert_url, "ALERT_COMMAND": alert_command, "ALERT_SEVERITY": alert_severity}
    set_environment(alerts | {"WATCH": None if watch is None else str(watch)})
    from rlpanel.app.alerts.recipients import from_settings
    from rlpanel.app.server.access import Access
    from rlpanel.settings import Alerts

    at = Access(host, port, "", tuple(origin or ()), bool(show), **_public(read_only, max_pages, embed_in))
    from_settings(Alerts.from_environment())  # a wrong recipient is reported before the server is imported
    serve_board(folder_of(root), at, token, alerts=True)


def app_path() -> None:
    """Print the path of the board's script, which Panel's own server can run."""
    package = Path(str(files("rlpanel")))
    carried = package / "dashboards" / "board.py"
    # In a clone the script lies beside the package.
    typer.echo(carried if carried.is_file() else package.parent / "dashboards" / "board.py")


def _public(read_only: bool, max_pages: int, embed_in: list[str] | None) -> dict[str, Any]:
    """Return the values of `Access` that ``serve`` and ``demo`` share."""
    public = {"read_only": read_only, "max_pages": max_pages, "embed_in": tuple(embed_in or ())}
    return public | {"spare_pages": _SPARE_PAGES}


def _has_screen() -> bool:
    """Return True if a browser opened here would be visible: there is a display and no ssh connection."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in {"darwin", "win32"} or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _exit_on_sigterm() -> None:
    """Exit through all ``with`` blocks on SIGTERM, until the server installs its own handler."""

    def exit_cleanly(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, exit_cleanly)


COMMANDS = {serve: "rlpanel serve runs", demo: "rlpanel demo", app_path: "rlpanel app-path"}
