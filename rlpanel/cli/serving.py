"""What ``rlpanel serve`` does before the board stands: find the folder, guard the door, say what is odd."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import typer

from rlpanel.errors import RunNotFound, SettingError

if TYPE_CHECKING:
    from rlpanel.sources.files.files import AnyPath

_NOT_TO_BE_HAD = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}


def folder_of(root: str | None) -> AnyPath | None:
    """What to serve; what is odd about it is said."""
    from rlpanel.recording.experiments import find_experiment
    from rlpanel.sources.discovery.diagnose import diagnose
    from rlpanel.sources.discovery.directory import Directory
    from rlpanel.sources.files.files import RemotePath, path_of

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
        _say_if_other(folder)
        return folder
    waiting = f"{root} does not exist yet. {diagnose(Directory(folder)).sentence}"
    if folder.name == root:  # a name, no path
        folder, waiting = find_experiment(root)
    if waiting:
        say(f"rlpanel: {waiting}", typer.colors.YELLOW)
    return folder


def _say_if_other(root: AnyPath) -> None:
    """A folder of other files is served too, but whoever named it should hear what is in it."""
    from rlpanel.sources.discovery.diagnose import diagnose
    from rlpanel.sources.discovery.directory import Directory

    directory = Directory(root)
    found = None if directory.any() else diagnose(directory)
    if found is None and directory.left_out:  # of the folders that were looked at so far
        some = "; ".join(f"{one.file}: {one.reason}" for one in directory.left_out[:3])
        more = f"; and {len(directory.left_out) - 3} more" if len(directory.left_out) > 3 else ""
        say(f"rlpanel: not shown: {some}{more}", typer.colors.YELLOW)
    if found is not None and found.seen:
        seen = "; ".join(f"{sight.name}: {sight.what}" for sight in found.seen[:3])
        say(f"rlpanel: {found.sentence} Seen: {seen}. The board says what is read.", typer.colors.YELLOW)


def serve_board(
    root: AnyPath | None,
    host: str,
    port: int,
    show: bool,
    token: str | None = None,
    origins: tuple[str, ...] = (),
    *,
    alerts: bool = False,
) -> None:
    """Serve until asked to end; an address that cannot be had is an error with a remedy."""
    from rlpanel.app.security.allowed_hosts import is_loopback
    from rlpanel.app.security.token_auth import check_length, new_token
    from rlpanel.app.server.server import Access, serve

    if token is None:
        token = "" if is_loopback(host) else new_token()
    check_length(token)
    at = Access(host, port, token, origins, show)
    if token:
        say(f"rlpanel: the board asks for its token: {' or '.join(at.printed)}", typer.colors.GREEN)
    elif not is_loopback(host):
        say(
            f"rlpanel: WARNING: {host} is not a loopback address and the board asks for no token: whoever "
            "reaches this port reads every prompt and response. An ssh tunnel (ssh -L) is safer.",
            typer.colors.RED,
        )
    try:
        serve(root, at, alerts=alerts)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _NOT_TO_BE_HAD:
            raise SettingError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with --host and --port"
            ) from error
        raise


def say(message: str, color: str) -> None:
    """One line on stderr; control characters, which a file's name may hold, cannot act on the terminal."""
    line = "".join(char if char.isprintable() else " " for char in message)
    typer.secho(line, fg=color, err=True)
