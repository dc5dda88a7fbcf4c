"""The endpoint by which an agent moves an open page: JSON, token, Host and Origin, and the client for it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from rlpanel.errors import SettingError
from rlpanel.mcp_server.http_server import BoardClient
from rlpanel.runtime import Runtime
from tests.factories import write_run
from tests.ui.board import Served

TOKEN = "s3cret-of-enough-length"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, samples=3)
    with Runtime() as runtime, Served(folder, TOKEN, runtime) as server:
        yield server


def post(server: Served, body: bytes, **headers: str) -> tuple[int, str]:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    named = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", "/show", body, {name: value for name, value in named.items() if value})
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, said


def test_the_client_moves_the_page_of_a_code(served: Served) -> None:
    shown: list[object] = []
    code = served.runtime.codes.give("page", shown.append)
    assert BoardClient(served.url, TOKEN).show("?step=2&page=samples", code) == "?step=2&page=samples"
    assert shown == [{"step": 2, "page": "samples", "follow": False}]
    with pytest.raises(SettingError, match="no open page has this code"):
        BoardClient(served.url, TOKEN).show("?step=2", "AAAA-AAAA")
    with pytest.raises(SettingError, match="no key 'nosuch'"):
        BoardClient(served.url, TOKEN).show("?nosuch=2", code)
    with pytest.raises(SettingError, match="RLPANEL_TOKEN"):
        BoardClient(served.url).show("?step=2", code)
    with pytest.raises(SettingError, match="cannot be reached"):
        BoardClient("http://127.0.0.1:9").show("?step=2", code)
    with pytest.raises(SettingError, match="no address of a board"):
        BoardClient("file:///etc/passwd").show("?step=2", code)
    assert len(shown) == 1


def test_what_is_no_request_of_a_client_is_refused(served: Served) -> None:
    shown: list[object] = []
    code = served.runtime.codes.give("page", shown.append)
    body = json.dumps({"view": "?step=2", "code": code}).encode()
    assert post(served, body, Content_Type="text/plain")[0] == 415
    assert post(served, body, Authorization="")[0] == 401
    assert post(served, body, Authorization="Bearer wrong-token-of-enough-length")[0] == 401
    assert post(served, body, Host="evil.example")[0] == 403
    assert post(served, body, Origin="http://evil.example")[0] == 403
    for wrong in (b"{", b"[]", b"{}", b'{"view": 1, "code": "x"}', b'{"view": "", "code": "", "x": ""}'):
        assert post(served, wrong)[0] == 400
    assert post(served, b'{"view": "?step=1", "code": "WRONG"}')[0] == 403
    assert shown == []
    assert post(served, body) == (200, '{"shown": "?step=2"}')


def test_wrong_codes_are_limited(served: Served) -> None:
    body = b'{"view": "?step=1", "code": "WRONG"}'
    statuses = [post(served, body)[0] for _ in range(25)]
    assert statuses[0] == 403
    assert statuses[-1] == 429
