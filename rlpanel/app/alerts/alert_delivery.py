"""Delivery of alerts to a webhook, a group robot or a command: each arrives once, and is retried."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.settings import Alerts

# -- chat webhook --------------------------------------------------------------------------------------
# Webhooks of the group robots of Feishu (Lark), DingTalk and WeCom: their messages, signatures and answers.
#
# Sources: the vendors' pages on custom robots, open.feishu.cn/document/client-docs/bot-v3/add-custom-bot,
# open.dingtalk.com/document/robots/custom-robot-access, developer.work.weixin.qq.com/document/path/91770.


#: Markup by which a message mentions people: a log's text must not call a whole group.
_MENTION = re.compile(r"<(?=\s*/?\s*at\b|\s*@)", re.IGNORECASE)
#: Most sentences of evidence in a message.
_EVIDENCE = 3
#: Reasons for the codes of refusal that a setting can mend.
_REASONS = {
    19021: "the secret in RLPANEL_ALERT_SECRET is wrong, or this machine's clock is",
    19024: "the robot demands a keyword: use rlpanel",
    19022: "the robot does not admit this machine's address",
    310000: "check its keyword (use rlpanel), its secret in RLPANEL_ALERT_SECRET, its addresses",
    300005: "the token in the URL is unknown",
    93000: "the key in the URL is unknown",
}


@dataclass(frozen=True)
class ChatFormat:
    """Format of one vendor's robots.

    Attributes
    ----------
    name : str
    hosts : tuple of str
        Hosts of the vendor's webhooks.
    limit : int
        Most bytes of a text in UTF-8.
    message : callable
        Turns a text into the message's JSON.
    sign : callable or None
        Turns URL, message, secret and Unix time in seconds into the signed URL and message; None if the
        vendor's robots have no secret.
    """

    name: str
    hosts: tuple[str, ...]
    limit: int
    message: Callable[[str], dict[str, Any]]
    sign: Callable[[str, dict[str, Any], str, float], tuple[str, dict[str, Any]]] | None = None

    def request(self, url: str, alert: dict[str, Any], secret: str) -> tuple[str, bytes]:
        """Return the URL and the body of the request for one alert, signed with the present time."""
        message = self.message(chat_text(alert, self.limit))
        if secret and self.sign is not None:
            url, message = self.sign(url, message, secret, time.time())
        return url, json.dumps(message, ensure_ascii=False).encode()


def chat_text(alert: dict[str, Any], limit: int) -> str:
    """Return the text of a message of at most ``limit`` bytes: finding, evidence, advice and link.

    It begins with ``rlpanel``, a keyword that a robot may demand. What is too long is cut before the link.
    """
    parts = [f"rlpanel · {alert['text']}", *(f"· {line}" for line in alert["evidence"][:_EVIDENCE])]
    if alert["advice"] and not alert["ended"]:
        parts.append(alert["advice"])
    text = _MENTION.sub("‹", "\n".join(parts))
    link = f"\n{alert['link']}"
    room = limit - len(link.encode())
    if room < limit // 2:
        room, link = limit, ""
    if len(text.encode()) > room:
        text = text.encode()[: room - len("…".encode())].decode(errors="ignore") + "…"
    return text + link


def refusal(answer: bytes) -> str:
    """Return why a robot refused a message, from its answer with status 200; empty if it took it."""
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return "it did not answer as a robot does"
    code = next((found[key] for key in ("errcode", "code", "StatusCode") if key in found), None)
    if code == 0:
        return ""
    if not isinstance(code, int):
        return "it did not answer as a robot does"
    reason = _REASONS.get(code)
    return f"it refused with code {code}" + (f": {reason}" if reason else "")


def chat_format(url: str, name: str, secret: str) -> ChatFormat | None:
    """Return the format of a webhook's messages; None for the JSON object of an alert.

    Parameters
    ----------
    url : str
    name : str
        Name of a format, ``json``, or ``auto`` for the one that the URL's host belongs to.
    secret : str
        Secret for the signature; may be empty.

    Raises
    ------
    SettingError
        If there is a secret that the format cannot use.
    """
    host = (urlsplit(url).hostname or "").lower()
    found = next(
        (each for each in FORMATS if (host in each.hosts if name == "auto" else each.name == name)), None
    )
    if secret and (found is None or found.sign is None):
        called = found.name if found else "json"
        raise SettingError(
            f"a secret for alerts is set, but messages in the format {called} are not signed: "
            "set RLPANEL_ALERT_FORMAT to feishu or dingtalk, or unset RLPANEL_ALERT_SECRET"
        )
    return found


def _plain(text: str) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": text}}


def _feishu(text: str) -> dict[str, Any]:
    return {"msg_type": "text", "content": {"text": text}}


def _hmac(key: str, message: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), message.encode(), hashlib.sha256).digest()).decode()


def _sign_feishu(url: str, message: dict[str, Any], secret: str, now: float) -> tuple[str, dict[str, Any]]:
    # The key is time and secret, the signed text is empty.
    stamp = f"{now:.0f}"
    return url, {"timestamp": stamp, "sign": _hmac(f"{stamp}\n{secret}", ""), **message}


def _sign_dingtalk(url: str, message: dict[str, Any], secret: str, now: float) -> tuple[str, dict[str, Any]]:
    stamp = f"{now * 1000:.0f}"
    query = urlencode({"timestamp": stamp, "sign": _hmac(secret, f"{stamp}\n{secret}")})
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}", message


#: Formats by vendor. Feishu and DingTalk take requests of 20 KB, WeCom takes texts of 2,048 bytes.
FORMATS = (
    ChatFormat("feishu", ("open.feishu.cn", "open.larksuite.com"), 8000, _feishu, _sign_feishu),
    ChatFormat("dingtalk", ("oapi.dingtalk.com", "api.dingtalk.com"), 8000, _plain, _sign_dingtalk),
    ChatFormat("wecom", ("qyapi.weixin.qq.com",), 2048, _plain),
)


# -- alert delivery ------------------------------------------------------------------------------------
# Delivery of alerts to a webhook or a command: each arrives once, and is retried until it does.
#
# Only this process remembers what was delivered. After a restart, the findings that last are sent again with
# the same id: an alert that comes twice does less harm than one that never comes.
#
# Each recipient has its own queue and thread, so that a slow recipient does not delay the others.


#: Timeouts in seconds.
POST_SECONDS, COMMAND_SECONDS = 10.0, 60.0
#: Most bytes of an answer that are read: a robot's answer is one short object.
_MAX_ANSWER = 1 << 16


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
        recipients.append(_webhook(settings))
    elif settings.alert_header:
        raise SettingError("a header for alerts is set, but no address; set RLPANEL_ALERT_URL as well")
    elif settings.alert_secret:
        raise SettingError("a secret for alerts is set, but no address; set RLPANEL_ALERT_URL as well")
    if settings.alert_command:
        recipients.append(Command(settings.alert_command))
    return recipients


def _webhook(settings: Alerts) -> Webhook:
    return Webhook(
        settings.alert_url,
        settings.alert_header,
        settings.alert_secret,
        format=settings.alert_format,
    )


class Webhook:
    """Webhook: posts alerts as JSON to a URL, or as messages to a group robot.

    Parameters
    ----------
    url : str
    header : str
        Additional HTTP header, ``Name: value``; may be empty.
    secret : str
        Secret by which a robot checks the signature of messages; may be empty.
    format : str
        A setting of ``RLPANEL_ALERT_FORMAT``: ``auto`` recognises a robot by its host.
    """

    def __init__(self, url: str, header: str = "", secret: str = "", *, format: str = "auto") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
            raise SettingError("the address for alerts must begin with http:// or https:// and a host")
        name, colon, value = header.partition(":")
        if header and not (name.strip().isascii() and colon and value.strip() and header.isprintable()):
            raise SettingError("the header for alerts must have the form Name: value")
        # The path is left out: for many webhooks it is the secret.
        self.name = parts.hostname
        self._url, self._secret = url, secret
        self._chat = chat_format(url, format, secret)
        self._headers = {"Content-Type": "application/json", "User-Agent": f"rlpanel/{rlpanel.__version__}"}
        if header:
            self._headers[name.strip()] = value.strip()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, body: bytes) -> None:
        """Post one alert; any status other than 2xx is a failure, and so is a robot's code of refusal."""
        url = self._url
        if self._chat is not None:
            url, body = self._chat.request(url, json.loads(body), self._secret)
        request = urllib.request.Request(url, body, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=POST_SECONDS) as response:
                answer = response.read(_MAX_ANSWER) if self._chat is not None else b""
        except urllib.error.HTTPError as error:
            error.close()
            raise NotDelivered(f"it answered {error.code}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise NotDelivered(f"it cannot be reached: {reason}") from None
        if self._chat is not None and (refused := refusal(answer)):
            raise NotDelivered(refused)

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


log = logging.getLogger(__name__)

#: Capacity of a recipient's queue; further alerts are offered again at the next check of their run.
ROOM = 100
#: Seconds of pause after a first failure, and the longest pause; it doubles with each further failure.
PAUSE, MAX_PAUSE = 1.0, 300.0


@dataclass(frozen=True)
class Alert:
    """A finding to be sent; ``body`` is its JSON."""

    id: str
    body: bytes


class AlertQueue:
    """Queue of alerts for one recipient, delivered by its own thread.

    Parameters
    ----------
    recipient : Recipient
    room : int
        Capacity; further alerts are not queued.
    pause : float
        Seconds after a first failure.

    Attributes
    ----------
    sent : int
        Number of alerts delivered since the queue was created.
    """

    def __init__(self, recipient: Recipient, *, room: int = ROOM, pause: float = PAUSE) -> None:
        self.recipient = recipient
        self._room, self._pause = room, pause
        self._waiting: OrderedDict[str, Alert] = OrderedDict()
        self._delivered: set[str] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failures = 0  # consecutive failures
        self.sent = 0
        self._thread = threading.Thread(target=self._loop, name="rlpanel-alerts-out", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of alerts that were not delivered yet."""
        return len(self._waiting)

    @property
    def failing(self) -> bool:
        """True if the last attempt failed."""
        return self._failures > 0

    def offer(self, alert: Alert) -> bool:
        """Queue an alert unless it was delivered or is queued; False if the queue is full. Never blocks."""
        with self._changed:
            if alert.id in self._waiting or alert.id in self._delivered:
                return True
            if len(self._waiting) >= self._room:
                return False
            self._waiting[alert.id] = alert
            self._changed.notify()
            return True

    def stop(self) -> None:
        """Stop the thread; queued alerts are offered again when the board is restarted."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        self.recipient.cancel()
        self._thread.join(timeout=0.5)  # do not wait for a request that hangs

    def _loop(self) -> None:
        while (alert := self._next()) is not None:
            try:
                self.recipient.send(alert.body)
            except NotDelivered as error:
                self._postpone(alert, error)
            except Exception as error:
                log.exception("an alert could not be sent")
                self._postpone(alert, error)
            else:
                self._failures = 0
                self.sent += 1
                with self._changed:
                    self._delivered.add(alert.id)
                    del self._waiting[alert.id]

    def _next(self) -> Alert | None:
        """Wait for and return the first alert of the queue; None after `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping.is_set())
            return None if self._stopping.is_set() else next(iter(self._waiting.values()))

    def _postpone(self, alert: Alert, error: Exception) -> None:
        """Move an alert to the end of the queue and pause: one that is refused must not block the others."""
        if self._stopping.is_set():
            return
        if not self._failures:
            log.warning("alerts do not reach %s: %s; delivery is retried", self.recipient.name, error)
        with self._changed:
            self._waiting.move_to_end(alert.id)
        self._stopping.wait(min(self._pause * 2**self._failures, MAX_PAUSE))
        self._failures = min(self._failures + 1, 30)
