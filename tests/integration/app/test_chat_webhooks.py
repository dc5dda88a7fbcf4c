"""Robots of Feishu, DingTalk and WeCom take the alerts: a local server checks them as the vendors do."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rlpanel.app.alerts.alert_delivery import (
    FORMATS,
    NotDelivered,
    Webhook,
    chat_format,
    chat_text,
    from_settings,
    refusal,
)
from rlpanel.app.alerts.alert_watcher import alert_json
from rlpanel.errors import SettingError
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import Alerts
from rlpanel.sources.discovery.directory import RunInfo

SECRET = "SEC0f1e2d"


def hmac_sha256(key: bytes, message: bytes) -> str:
    """HMAC by its definition in RFC 2104, in base64."""
    block = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in block) + message).digest()
    outer = hashlib.sha256(bytes(each ^ 0x5C for each in block) + inner).digest()
    return base64.b64encode(outer).decode()


class Robot(ThreadingHTTPServer):
    """HTTP server on loopback with robots of three vendors: ``/feishu``, ``/dingtalk``, ``/wecom``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.texts: list[str] = []
        self.secret = SECRET

    def answer(self, path: str, query: dict[str, list[str]], message: dict[str, Any]) -> dict[str, Any]:
        """Return what the vendor would answer, and keep the text of a message that is taken."""
        if path == "/feishu":
            stamp = message.get("timestamp", "0")
            key = f"{stamp}\n{self.secret}".encode()
            if abs(time.time() - int(stamp)) > 3600 or message.get("sign") != hmac_sha256(key, b""):
                return {"code": 19021, "msg": "sign match fail or timestamp is not within one hour"}
            assert message["msg_type"] == "text"
            self.texts.append(message["content"]["text"])
            return {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}
        assert message["msgtype"] == "text"
        if path == "/dingtalk":
            [stamp], [sign] = query["timestamp"], query["sign"]
            signed = hmac_sha256(self.secret.encode(), f"{stamp}\n{self.secret}".encode())
            if abs(time.time() * 1000 - int(stamp)) > 3_600_000 or sign != signed:
                return {"errcode": 310000, "errmsg": "sign not match"}
            assert query["access_token"] == ["t0ken"]
        elif len(message["text"]["content"].encode()) > 2048:
            return {"errcode": 40058, "errmsg": "content size out of limit"}
        self.texts.append(message["text"]["content"])
        return {"errcode": 0, "errmsg": "ok"}


class _Answer(BaseHTTPRequestHandler):
    server: Robot

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = urlsplit(self.path)
        body = json.dumps(self.server.answer(parts.path, parse_qs(parts.query), message)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def robot() -> Iterator[Robot]:
    with Robot() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def alert(sentence: str = "The reward fell.", **values: Any) -> dict[str, Any]:
    """Return the JSON object of an alert."""
    finding = Finding(
        severity="alarm", sentence=sentence, steps=(21,), rule="reward_collapse", evidence=("0.88 to 0.25",)
    )
    run = RunInfo("exp/1", Path("/runs/exp"), files=1, bytes=1, modified=0.0)
    return alert_json(run, finding, 0.0, "http://board") | values


@pytest.mark.parametrize(
    ("format", "path", "secret"),
    [
        ("feishu", "/feishu", SECRET),
        ("dingtalk", "/dingtalk?access_token=t0ken", SECRET),
        ("wecom", "/wecom", ""),
    ],
)
def test_a_robot_takes_an_alert(robot: Robot, format: str, path: str, secret: str) -> None:
    Webhook(robot.url + path, "", secret, format=format).send(json.dumps(alert()).encode())
    (text,) = robot.texts
    assert text.splitlines()[:2] == ["rlpanel · alarm in exp/1: The reward fell.", "· 0.88 to 0.25"]
    assert text.splitlines()[-1] == alert()["link"]


@pytest.mark.parametrize("format", ["feishu", "dingtalk"])
def test_a_wrong_secret_is_a_failure_with_its_remedy(robot: Robot, format: str) -> None:
    robot.secret = "another"
    hook = Webhook(f"{robot.url}/{format}", "", SECRET, format=format)
    with pytest.raises(NotDelivered, match="RLPANEL_ALERT_SECRET") as failed:
        hook.send(json.dumps(alert()).encode())
    assert SECRET not in str(failed.value)
    assert robot.texts == []


def test_a_long_finding_is_cut_before_its_link(robot: Robot) -> None:
    long = alert("字" * 3000)
    Webhook(f"{robot.url}/wecom", format="wecom").send(json.dumps(long).encode())
    (text,) = robot.texts
    assert len(text.encode()) <= 2048
    assert text.splitlines()[-1] == long["link"]
    assert "字…\n" in text


@pytest.mark.parametrize("mention", ['<at user_id="all">', "< AT id=all>", "</at>", "<@all>"])
def test_a_text_of_a_log_mentions_nobody(mention: str) -> None:
    text = chat_text(alert(f"The response {mention} grew <|im_end|>."), 2048)
    assert "<" not in text.replace("<|im_end|>", "")
    assert "<|im_end|>" in text


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://open.feishu.cn/open-apis/bot/v2/hook/x", "feishu"),
        ("https://open.larksuite.com/open-apis/bot/v2/hook/x", "feishu"),
        ("https://oapi.dingtalk.com/robot/send?access_token=x", "dingtalk"),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x", "wecom"),
        ("https://hooks.slack.com/x", None),
        ("https://open.feishu.cn.example.org/x", None),
    ],
)
def test_a_robot_is_recognised_by_its_host(url: str, name: str | None) -> None:
    found = chat_format(url, "auto", "")
    assert (found and found.name) == name
    assert chat_format(url, "json", "") is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'{"errcode": 0}', ""),
        (b'{"code": 0, "msg": "ok"}', ""),
        (b'{"StatusCode": 0}', ""),
        (b'{"errcode": 93000, "errmsg": "x"}', "key in the URL"),
        (b'{"code": 9499}', "code 9499"),
        (b"<html>", "not answer as a robot"),
        (b"{}", "not answer as a robot"),
        (b"[0]", "not answer as a robot"),
    ],
)
def test_an_answer_is_read(answer: bytes, why: str) -> None:
    said = refusal(answer)
    assert (said == "") == (why == "")
    assert why in said


@pytest.mark.parametrize("url", ["https://qyapi.weixin.qq.com/x", "https://hooks.slack.com/x", ""])
def test_a_secret_that_nothing_uses_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="RLPANEL_ALERT"):
        from_settings(Alerts(alert_url=url, alert_secret=SECRET))


def test_the_setting_offers_each_format() -> None:
    assert set(Alerts.param.alert_format.objects) == {"auto", "json", *(each.name for each in FORMATS)}
