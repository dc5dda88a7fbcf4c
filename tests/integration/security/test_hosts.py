"""DNS rebinding and pages of other origins: the server serves only its own pages under its own names."""

from __future__ import annotations

import socket
import sys
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.http_client import ask, upgrade
from tests.integration.security.page_client import page_token
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE
from tests.waiting import wait_until

OLDEST = next(
    line.partition(">=")[2]
    for line in tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    if line.startswith("tornado>=")
)
ROUTES = ("/", "/health", "/metrics", "/static/js/bokeh.min.js", "/components/x/y/z/w", "/nothing", "/ws")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A board without a token on loopback, as `rlpanel serve` starts it, behind a proxy named board.lab."""
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    with ServerProcess(folder, "--origin", "board.lab", "--origin", "other.lab:8443") as server:
        yield server


def opens_websocket(server: ServerProcess, headers: dict[str, str]) -> bool:
    """Return whether a new page may connect with such headers."""
    return upgrade(server.url, headers, token=page_token(server.url)) == 101


def foreign_names(port: int) -> list[str]:
    return [
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        f"localhost.evil.example:{port}",
        f"localhost@evil.example:{port}",
        f"evil.example#localhost:{port}",
        f"evil.example/localhost:{port}",
        "127.0.0.1:port",
        "169.254.169.254",
        "0x7f.1",
        "",
        "[::1",
        f"localhost:{port}, evil.example",
    ]


@pytest.mark.parametrize("path", ROUTES)
def test_a_foreign_host_gets_nothing(served: ServerProcess, path: str) -> None:
    for name in foreign_names(served.port):
        assert ask(served.url, path, headers={"Host": name}).status in {400, 403}, name


def test_a_refused_host_is_told_what_to_do_and_logged_once(served: ServerProcess) -> None:
    for _ in range(3):
        answer = ask(served.url, "/", headers={"Host": "typo.example"})
        assert b"'typo.example'" in answer.body
        assert b"--origin" in answer.body
        assert (answer.headers.get("Content-Type") or "").startswith("text/plain")
    # A thread reads the output. Lines keep their order, so a later line shows that the first ones are there.
    ask(served.url, "/", headers={"Host": "last.example"})
    wait_until(lambda: any("last.example" in line for line in served.output), PATIENCE)
    assert sum("typo.example" in line for line in served.output) == 1


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "localhost:8000", "LOCALHOST:1", "[::1]:80", "board.lab", "other.lab:8443"],
)
def test_own_names_are_answered_at_any_port(served: ServerProcess, host: str) -> None:
    """A tunnel may use another port on the viewer's machine."""
    assert ask(served.url, "/health", headers={"Host": host}).status == 200
    assert opens_websocket(served, {"Host": host, "Origin": f"http://{host}"})


@pytest.mark.parametrize("origin", ["https://board.lab", "https://board.lab:443", "https://other.lab:8443"])
def test_a_named_proxy_may_change_the_host(served: ServerProcess, origin: str) -> None:
    assert opens_websocket(served, {"Origin": origin})


def test_a_websocket_of_another_origin_is_refused(served: ServerProcess) -> None:
    own = f"127.0.0.1:{served.port}"
    foreign = [f"http://{name}" for name in foreign_names(served.port)]
    foreign += ["null", "file://", f"ftp://{own}", "http://localhost:3000", f"http://{own}.evil.example", "x"]
    token = page_token(served.url)
    for origin in foreign:
        assert upgrade(served.url, {"Host": own, "Origin": origin}, token=token) == 403
    assert opens_websocket(served, {"Host": own, "Origin": f"http://{own}"})
    assert opens_websocket(served, {"Host": own})  # a script, which has no cookies of a viewer


def test_the_same_origin_by_tornados_rule_alone_is_not_enough(served: ServerProcess) -> None:
    """Tornado 6.6 accepts a websocket if the browser sends same-origin, or if Origin equals Host."""
    name, token = f"evil.example:{served.port}", page_token(served.url)
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {}):
        foreign = {"Host": name, "Origin": f"http://{name}", **headers}
        assert upgrade(served.url, foreign, token=token) == 403


def test_with_the_oldest_tornado_foreign_names_and_pages_are_refused(root: Path) -> None:
    """Before Tornado 6.6 the checks of Host and Origin ran in another order."""
    oldest = CHECKOUT / ".venv" / "oldest-tornado"
    assert oldest.is_dir(), "make .venv/tornado.stamp installs it"
    version = f"import tornado; print(tornado.version == {OLDEST!r}); "
    command = (sys.executable, "-P", "-c", f"{version}from rlpanel.cli import main; main()", "serve")
    with ServerProcess(root, command=command, env={"PYTHONPATH": f"{CHECKOUT}:{oldest}"}) as server:
        wait_until(lambda: "True" in server.output, PATIENCE, "the version of Tornado")
        rebound, own = f"evil.example:{server.port}", f"127.0.0.1:{server.port}"
        assert ask(server.url, "/", headers={"Host": rebound}).status == 403
        token = page_token(server.url)
        for host in (rebound, own):
            assert upgrade(server.url, {"Host": host, "Origin": f"http://{rebound}"}, token=token) == 403
        assert opens_websocket(server, {"Host": own, "Origin": f"http://{own}"})


def test_listening_on_all_addresses_the_address_itself_is_a_name(root: Path) -> None:
    """A literal address cannot be rebound. Other addresses than the connection's must be named."""
    with ServerProcess(root, "--host", "0.0.0.0", "--token", "") as server:
        ours = {"127.0.0.1": 200, socket.gethostname(): 200, "10.99.88.77": 403, "evil.example": 403}
        found = {name: ask(server.url, "/health", headers={"Host": f"{name}:80"}).status for name in ours}
        assert found == ours


def test_a_rebound_name_shows_no_sample(served: ServerProcess, browser: Browser) -> None:
    page = browser.new_page()
    answer = page.goto(f"http://evil.example:{served.port}/")
    assert answer is not None
    assert answer.status == 403
    expect(page.locator("body")).to_contain_text("evil.example")
    # By its own name the server answers the same browser; the page itself is not loaded.
    assert page.request.get(served.url).status == 200
    page.close()


_ATTACK = """<!doctype html><title>attack</title><body><script>
const port = PORT, results = {}
const tried = []
const image = (name, path) => tried.push(new Promise((done) => {
  const element = new Image()
  element.onload = () => { results[name] = "loaded"; done() }
  element.onerror = () => { results[name] = "refused"; done() }
  element.src = `http://127.0.0.1:${port}${path}`
}))
image("components", "/components/unittest.__main__/x/_css/y")
image("icon", "/favicon.ico")
tried.push(new Promise((done) => {
  const script = document.createElement("script")
  script.onload = () => { results.script = "loaded"; done() }
  script.onerror = () => { results.script = "refused"; done() }
  script.src = `http://127.0.0.1:${port}/static/js/bokeh-gl.min.js`
  document.body.append(script)
}))
tried.push(new Promise((done) => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, ["bokeh", "none"])
  socket.onopen = () => { results.websocket = "opened"; done() }
  socket.onerror = () => { results.websocket = "refused"; done() }
}))
tried.push(fetch(`http://127.0.0.1:${port}/health`).then((answer) => { results.fetch = "read" })
  .catch(() => { results.fetch = "refused" }))
tried.push(fetch(`http://127.0.0.1:${port}/`, {mode: "no-cors"}).then(() => { results.blind = "sent" })
  .catch(() => { results.blind = "refused" }))
Promise.all(tried).then(() => { document.title = JSON.stringify(results) })
</script>"""


@pytest.fixture
def foreign_site(tmp_path: Path, served: ServerProcess) -> Iterator[str]:
    """Another web server on this machine, with a page that attacks the board."""
    (tmp_path / "index.html").write_text(_ATTACK.replace("PORT", str(served.port)))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    thread.join(PATIENCE)
    server.server_close()


@pytest.fixture
def foreign_page(foreign_site: str, browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(foreign_site)
    yield page
    page.close()


def test_a_foreign_page_loads_nothing_and_ends_nothing(served: ServerProcess, foreign_page: Page) -> None:
    foreign_page.wait_for_function("document.title.startsWith('{')", timeout=PATIENCE * 1000)
    results = foreign_page.evaluate("JSON.parse(document.title)")
    # A page cannot read the answer of a cross-origin request; it is the 403 of the guard.
    assert results.pop("blind") == "sent"
    assert set(results.values()) == {"refused"}, results
    assert served.alive
    link = foreign_page.evaluate(f"window.open('{served.url}') !== null")
    assert link


def test_a_foreign_page_cannot_show_the_board_in_a_frame(served: ServerProcess, foreign_page: Page) -> None:
    with foreign_page.expect_response(lambda answer: answer.url == served.url) as caught:
        foreign_page.evaluate(
            f"document.body.insertAdjacentHTML('beforeend', '<iframe src=\"{served.url}\"></iframe>')"
        )
    assert caught.value.status == 403


def test_a_link_from_a_foreign_page_opens_the_board(served: ServerProcess, foreign_page: Page) -> None:
    foreign_page.evaluate(f"document.body.innerHTML = '<a href=\"{served.url}\">the board</a>'")
    foreign_page.get_by_text("the board").click()
    expect(foreign_page.locator(".rl-grid .tabulator-row").first).to_be_visible(timeout=PATIENCE * 1000)
