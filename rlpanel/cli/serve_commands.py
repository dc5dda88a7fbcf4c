"""The commands ``serve | demo | app-path | top``: the board in a browser, or in a terminal."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rlpanel.board_url import USUAL_PORT
from rlpanel.cli import completion
from rlpanel.cli.shared_options import (
    AlertCommand,
    AlertSeverity,
    AlertUrl,
    DefaultStep,
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
    set_environment,
    set_reader_environment,
)
from rlpanel.cli.terminal_messages import printable, say
from rlpanel.errors import RunNotFound, SettingError, install_command

if TYPE_CHECKING:
    from rlpanel.app.server.access import Access
    from rlpanel.sources.files.file_access import AnyPath


# -- serve commands ------------------------------------------------------------------------------------
# The commands ``serve | demo | app-path``: the board in a browser.
#
# Starts the server: finds the root, creates the token, and prints warnings about both.


#: Seconds that the search for runs may delay the start of the server.
FOUND_WAIT = 0.5
_CANNOT_LISTEN = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}


def folder_of(root: str | None) -> AnyPath | None:
    """Return the root to serve, and print a warning if it is missing or holds no runs."""
    from rlpanel.recording.output_folder import find_experiment
    from rlpanel.sources.discovery.diagnose import diagnose
    from rlpanel.sources.discovery.directory import Directory
    from rlpanel.sources.files.file_access import RemotePath, path_of

    if root is None:
        return None
    folder = path_of(root)
    if isinstance(folder, RemotePath):
        if not folder.is_dir():
            say(f"rlpanel: {diagnose(Directory(folder)).sentence}", typer.colors.YELLOW)
        return folder
    if folder.exists() and not folder.is_dir():
        raise RunNotFound(f"{root} is a file; give the folder that holds it")
    if folder.exists():
        warn_without_runs(folder)
        return folder
    warning = f"{root} does not exist yet. {diagnose(Directory(folder)).sentence}"
    if folder.name == root:  # the name of an experiment, not a path
        folder, warning = find_experiment(root)
    if warning:
        say(f"rlpanel: {warning}", typer.colors.YELLOW)
    return folder


def warn_without_runs(root: AnyPath, command: str = "serve") -> None:
    """Print which folders are not shown, or what a folder without runs holds and which command opens it."""
    from rlpanel.sources.discovery.diagnose import diagnose
    from rlpanel.sources.discovery.directory import Directory

    directory = Directory(root)
    diagnosis = None if directory.has_runs() else diagnose(directory)
    if diagnosis is None and directory.left_out:  # only of the folders scanned so far
        some = "; ".join(f"{left.file}: {left.reason}" for left in directory.left_out[:3])
        more = f"; and {len(directory.left_out) - 3} more" if len(directory.left_out) > 3 else ""
        say(f"rlpanel: not shown: {some}{more}", typer.colors.YELLOW)
    if diagnosis is not None and diagnosis.seen:
        for line in diagnosis.lines(root, command):
            say(line, typer.colors.YELLOW)


def tell_found(root: AnyPath) -> threading.Thread:
    """Print how many runs a folder holds, at once or when the search ends; return the thread that searches.

    A large or remote folder takes long, which must not delay the board.
    """
    from rlpanel.number_text import size_text
    from rlpanel.sources.discovery.directory import Directory
    from rlpanel.sources.files.file_access import RemotePath

    place = printable(str(root if isinstance(root, RemotePath) else root.resolve()))

    def search() -> None:
        try:
            runs = Directory(root).runs()
        except OSError as error:
            typer.echo(f"rlpanel: {place} cannot be searched: {error.strerror}")
            return
        files, size = sum(run.files for run in runs), size_text(sum(run.bytes for run in runs))
        many = f"{len(runs):,} run{'' if len(runs) == 1 else 's'}"
        what = f"{many}, {files:,} file{'' if files == 1 else 's'}, {size}" if runs else "no runs yet"
        typer.echo(f"rlpanel: {what} in {place}")

    searching = threading.Thread(target=search, name="rlpanel-found", daemon=True)
    searching.start()
    searching.join(FOUND_WAIT)
    if searching.is_alive():
        typer.echo(f"rlpanel: looking for runs in {place}")
    return searching


def serve_board(root: AnyPath | None, at: Access, token: str | None = None, *, alerts: bool = False) -> None:
    """Serve the board until SIGINT or SIGTERM, with a random token by default if others can connect.

    Parameters
    ----------
    root : path or None
    at : Access
    token : str, optional
    alerts : bool

    Raises
    ------
    SettingError
        If the address cannot be listened on, or the token is too short.
    """
    from rlpanel.app.security.http_headers import is_loopback
    from rlpanel.app.security.login import new_token

    host, port = at.host, at.port
    is_given = token is not None
    if token is None:
        token = "" if is_loopback(host) else new_token()
    at = replace(at, token=token)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe would show the address only when the server ends
        sys.stdout.reconfigure(line_buffering=True)
    if at.read_only:
        set_environment({"CACHE": "0"})
    if root is not None:
        tell_found(root)
    if token:
        # A token that was given stays where it was: the output may be kept, as in the journal of a service.
        urls, of = (at.login_urls, "the given token") if is_given else (at.printed_urls, "its token")
        say(f"rlpanel: open the board with {of}: {' or '.join(urls)}", typer.colors.GREEN)
    else:
        typer.echo(f"rlpanel: starting the board at {' or '.join(at.printed_urls)}")
    if not token and not is_loopback(host):
        say(
            f"rlpanel: WARNING: {host} is not a loopback address and the board requires no token: whoever "
            "reaches this port can read every prompt and response. An ssh tunnel (ssh -L) is safer.",
            typer.colors.RED,
        )
    from rlpanel.app.server.mcp_endpoint import PATH, is_installed

    if is_installed():
        how = "Model Context Protocol, with the same token" if token else "Model Context Protocol"
        typer.echo(f"rlpanel: agents ask at {at.url}{PATH} ({how})")
    ready = f"rlpanel: ready at {at.url}/ (Ctrl-C stops it)"
    from rlpanel.app.server.server import serve  # imports Panel, which takes two seconds

    try:
        serve(root, at, alerts=alerts, on_ready=partial(typer.echo, ready))
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _CANNOT_LISTEN:
            raise SettingError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with --host and --port"
            ) from error
        raise
    finally:
        gc.freeze()  # the interpreter's last collections would visit all objects: over a second of CPU


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
    write: Annotated[
        Path | None,
        typer.Option(
            help="Write the recorded run of an agent into this folder instead, and open no board.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Open the board on three recorded runs: two finished ones, and one that grows like a live training.

    A browser is opened if there is a screen; --no-show prevents it.
    """
    if write is not None:
        _write_demo(write)
        return
    _exit_on_sigterm()
    from rlpanel.app.demo import Demo
    from rlpanel.app.server.access import Access

    show = _has_screen() if show is None else show
    at = Access(host, port, "", tuple(origin or ()), show, **_public(read_only, max_pages, embed_in))
    with Demo(seconds_per_step) as run:
        serve_board(run.root, at, token)


def _write_demo(folder: Path) -> None:
    """Write the recorded run of an agent; SettingError if the folder holds anything."""
    from rlpanel.app.demo import write_recording

    if folder.is_dir() and any(folder.iterdir()):
        raise SettingError(f"{folder} is not empty: give a folder that is empty, or that does not exist")
    try:
        write_recording("grpo_calculator", folder)
    except OSError as error:
        raise SettingError(f"{folder} cannot be written: {error.strerror or error}") from error
    say(
        f"{printable(str(folder))} holds a recorded run; see it with: rlpanel serve {folder.parent}",
        typer.colors.GREEN,
    )


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
    default_step: DefaultStep = None,
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
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    alerts = {"ALERT_URL": alert_url, "ALERT_COMMAND": alert_command, "ALERT_SEVERITY": alert_severity}
    set_environment(alerts | {"WATCH": None if watch is None else str(watch)})
    from rlpanel.app.alerts.alert_delivery import from_settings
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
    return {"read_only": read_only, "max_pages": max_pages, "embed_in": tuple(embed_in or ())}


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


# -- top command ---------------------------------------------------------------------------------------
# The command ``top``: the screens of `rlpanel.terminal_ui` in a terminal.


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


COMMANDS = {
    serve: "rlpanel serve runs",
    demo: "rlpanel demo",
    app_path: "rlpanel app-path",
    top: "rlpanel top runs",
}
