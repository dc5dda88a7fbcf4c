"""Who is alerted: an address that takes JSON posts, and a command that reads JSON."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from typing import Protocol
from urllib.parse import urlsplit

import xxhash

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.settings import Alerts

#: Seconds until a try has failed.
POST_SECONDS, COMMAND_SECONDS = 10.0, 60.0


class NotDelivered(Exception):
    """A try that failed; the message says why and holds nothing secret."""


class Recipient(Protocol):
    """Takes alerts.

    Attributes
    ----------
    name : str
        For the terminal.
    id : str
        The same for the same recipient after a restart; does not give its address away.
    """

    name: str
    id: str

    def send(self, body: bytes) -> None:
        """Hand over one alert, a JSON object; raises NotDelivered."""

    def cancel(self) -> None:
        """End a try that is under way, where it can be ended."""


def from_settings(settings: Alerts) -> list[Recipient]:
    """The recipients that are set.

    Raises
    ------
    SettingError
        If an address, header or command cannot be one.
    """
    found: list[Recipient] = []
    if settings.alert_url:
        found.append(Webhook(settings.alert_url, settings.alert_header))
    elif settings.alert_header:
        raise SettingError("there is a header for alerts and no address to post them to")
    if settings.alert_command:
        found.append(Command(settings.alert_command))
    return found


class Webhook:
    """An address that takes JSON posts.

    Parameters
    ----------
    url : str
    header : str
        ``Name: value``, sent along; may be empty.
    """

    def __init__(self, url: str, header: str = "") -> None:
        where = urlsplit(url)
        if where.scheme not in ("http", "https") or not where.hostname or not url.isprintable():
            raise SettingError("the address for alerts must begin with http:// or https:// and a host")
        name, colon, value = header.partition(":")
        if header and not (name.strip().isascii() and colon and value.strip() and header.isprintable()):
            raise SettingError("the header for alerts must have the form Name: value")
        # The path of an address is often the secret that lets post to it.
        self.name = where.hostname
        self.id = _id(url)
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": f"rlpanel/{rlpanel.__version__}"}
        if header:
            self._headers[name.strip()] = value.strip()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, body: bytes) -> None:
        """Post one alert; any answer but 2xx is a failure."""
        request = urllib.request.Request(self._url, body, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=POST_SECONDS):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            raise NotDelivered(f"it answered {error.code}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise NotDelivered(f"it cannot be reached: {reason}") from None

    def cancel(self) -> None:
        """Nothing: a post ends by itself within seconds."""


class Command:
    """A command that is run for each alert, without a shell; what it says goes to the terminal.

    Parameters
    ----------
    command : str
        With its arguments, quoted as in a shell. Nothing of a log ever stands in it.
    """

    def __init__(self, command: str) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise SettingError(f"the command for alerts cannot be read: {error}") from error
        if not self._arguments or shutil.which(self._arguments[0]) is None:
            raise SettingError(f"the command for alerts is not there: {command}")
        self.name = self._arguments[0]
        self.id = _id(command)
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, body: bytes) -> None:
        """Run it with one alert on its standard input; it must end with 0 within a minute."""
        try:
            process = self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise NotDelivered(f"it does not start: {error.strerror}") from None
        try:
            process.communicate(body, timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            _end(process)
            raise NotDelivered(f"it did not end within {COMMAND_SECONDS:.0f} s") from None
        finally:
            self._process = None
        if process.returncode:
            raise NotDelivered(f"it ended with {process.returncode}")

    def cancel(self) -> None:
        """End it and what it started."""
        process = self._process
        if process is not None:
            _end(process)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: findings and the header are for one address."""

    def redirect_request(self, *_: object) -> None:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # pragma: no cover - Windows
            process.kill()
    except ProcessLookupError:
        pass
    process.wait()


def _id(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode())
