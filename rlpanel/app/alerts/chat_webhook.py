"""Webhooks of the group robots of Feishu (Lark), DingTalk and WeCom: their messages, signatures and answers.

Sources: the vendors' pages on custom robots, open.feishu.cn/document/client-docs/bot-v3/add-custom-bot,
open.dingtalk.com/document/robots/custom-robot-access, developer.work.weixin.qq.com/document/path/91770.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from rlpanel.errors import SettingError

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
