"""Recipients of alerts: a webhook that accepts JSON, and a command that reads JSON."""

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

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.settings import Alerts

#: Timeouts in seconds.
POST_SECONDS, COMMAND_SECONDS = 10.0, 60.0


class NotDelivered(Exception):
    """Raised when an attempt failed; the message gives the reason and contains no secrets."""


class Recipient(Protocol):
    """Interface of a recipient.

    Attributes
    ----------
    name : str
        Name for log messages.
    """

    name: str

    def send(self, body: bytes) -> None:
        """Deliver one alert, a JSON object; raises NotDelivered."""

    def cancel(self) -> None:
        """Abort the current attempt, if that is possible."""


def from_settings(settings: Alerts) -> list[Recipient]:
    """Return the configured recipients.

    Raises
    ------
    SettingError
        If an address, header or command is not valid.
    """
    recipients: list[Recipient] = []
    if settings.alert_url:
        recipients.append(Webhook(settings.alert_url, settings.alert_header))
    elif settings.alert_header:
        raise SettingError("a header for alerts is set, but no address; set RLPANEL_ALERT_URL as well")
    if settings.alert_command:
        recipients.append(Command(settings.alert_command))
    return recipients


class Webhook:
    """Webhook: posts alerts as JSON to a URL.

    Parameters
    ----------
    url : str
    header : str
        Additional HTTP header, ``Name: value``; may be empty.
    """

    def __init__(self, url: str, header: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
            raise SettingError("the address for alerts must begin with http:// or https:// and a host")
        name, colon, value = header.partition(":")
        if header and not (name.strip().isascii() and colon and value.strip() and header.isprintable()):
            raise SettingError("the header for alerts must have the form Name: value")
        # The path is left out: for many webhooks it is the secret.
        self.name = parts.hostname
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": f"rlpanel/{rlpanel.__version__}"}
        if header:
            self._headers[name.strip()] = value.strip()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, body: bytes) -> None:
        """Post one alert; any status other than 2xx is a failure."""
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
        """Do nothing: a request times out after a few seconds."""


class Command:
    """Command that is run without a shell for each alert; its errors appear in the terminal.

    Parameters
    ----------
    command : str
        The command with its arguments, quoted as in a shell. No text of a log is ever inserted into it.
    """

    def __init__(self, command: str) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise SettingError(f"the command for alerts cannot be read: {error}") from error
        if not self._arguments or shutil.which(self._arguments[0]) is None:
            raise SettingError(f"the command for alerts was not found: {command}")
        self.name = self._arguments[0]
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, body: bytes) -> None:
        """Run the command with one alert on its standard input; it must exit with 0 within a minute."""
        try:
            process = self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise NotDelivered(f"it could not be started: {error.strerror}") from None
        try:
            process.communicate(body, timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise NotDelivered(f"it did not exit within {COMMAND_SECONDS:.0f} s") from None
        finally:
            self._process = None
        if process.returncode:
            raise NotDelivered(f"it exited with code {process.returncode}")

    def cancel(self) -> None:
        """Kill the command and the processes that it started."""
        process = self._process
        if process is not None:
            _kill(process)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: findings and the header must not reach another address."""

    def redirect_request(self, *_: object) -> None:
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # pragma: no cover - Windows
            process.kill()
    except ProcessLookupError:
        pass
    process.wait()
