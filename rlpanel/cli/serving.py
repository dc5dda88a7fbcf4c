"""Start of ``rlpanel serve``: resolves the root, creates the token, and prints warnings about both."""

from __future__ import annotations

import errno
import io
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from rlpanel.cli.output.terminal_messages import say
from rlpanel.cli.reader_settings import set_environment
from rlpanel.errors import RunNotFound, SettingError

if TYPE_CHECKING:
    from rlpanel.app.server.access import Access
    from rlpanel.sources.files.file_access import AnyPath

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


def warn_without_runs(root: AnyPath) -> None:
    """Print which folders are not shown, or which other files a folder without runs holds."""
    from rlpanel.sources.discovery.diagnose import diagnose
    from rlpanel.sources.discovery.directory import Directory

    directory = Directory(root)
    diagnosis = None if directory.has_runs() else diagnose(directory)
    if diagnosis is None and directory.left_out:  # only of the folders scanned so far
        some = "; ".join(f"{left.file}: {left.reason}" for left in directory.left_out[:3])
        more = f"; and {len(directory.left_out) - 3} more" if len(directory.left_out) > 3 else ""
        say(f"rlpanel: not shown: {some}{more}", typer.colors.YELLOW)
    if diagnosis is not None and diagnosis.seen:
        seen = "; ".join(f"{sight.name}: {sight.what}" for sight in diagnosis.seen[:3])
        mapping = f" Map other keys: --map {diagnosis.mapping}." if diagnosis.mapping else ""
        say(
            f"rlpanel: {diagnosis.sentence} Seen: {seen}.{mapping} "
            "The board lists the formats that can be read.",
            typer.colors.YELLOW,
        )


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
    from rlpanel.app.security.allowed_hosts import is_loopback
    from rlpanel.app.security.token_auth import new_token

    host, port = at.host, at.port
    is_given = token is not None
    if token is None:
        token = "" if is_loopback(host) else new_token()
    at = replace(at, token=token)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe would show the address only when the server ends
        sys.stdout.reconfigure(line_buffering=True)
    if at.read_only:
        set_environment({"CACHE": "0"})
    if token:
        # A token that was given stays where it was: the output may be kept, as in the journal of a service.
        urls, of = (at.login_urls, "the given token") if is_given else (at.printed_urls, "its token")
        say(f"rlpanel: open the board with {of}: {' or '.join(urls)}", typer.colors.GREEN)
    elif not is_loopback(host):
        say(
            f"rlpanel: WARNING: {host} is not a loopback address and the board requires no token: whoever "
            "reaches this port can read every prompt and response. An ssh tunnel (ssh -L) is safer.",
            typer.colors.RED,
        )
    from rlpanel.app.server.server import serve  # imports Panel, which takes two seconds

    try:
        serve(root, at, alerts=alerts)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _CANNOT_LISTEN:
            raise SettingError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with --host and --port"
            ) from error
        raise
