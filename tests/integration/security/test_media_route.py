"""The route of audio and video: only for viewers, only for what a page shows, and never as a page."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rlpanel
from rlpanel import Run
from rlpanel.app.server.page_endpoints import CHUNK
from rlpanel.panels.session.page_addresses import PageMedia
from rlpanel.runtime import default_runtime
from rlpanel.sources.records.embedded_media import Medium
from rlpanel.store.query.sample_media import HEAD, OpenMedium, PlayableMedium, playable
from tests.conversations import write_agent_run
from tests.integration.http_client import Answer, ask
from tests.media import CLIP, IMPOSTORS, in_base64, polyglot, sound
from tests.ui.board import Served

TOKEN = "a-token-of-thirty-two-characters"
LOGIN = {"Authorization": f"Bearer {TOKEN}"}
LARGE = CLIP + os.urandom(3 * CHUNK + 17)


@dataclass
class Site:
    """A server with a token, a run with media, and a page that may show them."""

    url: str
    run: Run
    page: PageMedia
    folder: Path

    def publish(self, medium: Medium) -> str:
        """Return the path at which the page plays a medium of the run's only sample."""
        snapshot = self.run.snapshot
        found = playable(self.run.index, snapshot, snapshot.uid(int(snapshot.alive_rows[0])), medium)
        return f"/{self.page.address(str(medium), found)}"

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask with the login."""
        return ask(self.url, path, method, headers=LOGIN | headers)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "root" / "run"
    folder.mkdir(parents=True)
    for name, content in {
        "clip.webm": CLIP,
        "large.webm": LARGE,
        "both.wav": polyglot(),
        **IMPOSTORS,
    }.items():
        (folder / name).write_bytes(content)
    part = {"type": "input_audio", "input_audio": {"data": in_base64(sound()), "format": "wav"}}
    write_agent_run(
        folder, {"step": 1, "messages": [{"role": "user", "content": [part]}], "response": "A tone."}
    )
    page = PageMedia(default_runtime().media)
    with Served(folder.parent, TOKEN) as served, rlpanel.open_run(folder) as run:
        yield Site(served.url, run, page, folder)
    page.close()


def video(name: str) -> Medium:
    return {"kind": "video", "url": name}


def embedded(run: Run) -> Medium:
    medium: Medium = run.sample(run.snapshot.uid(0)).messages[0]["media"][0]
    return medium


def test_embedded_audio_and_a_file_are_sent_whole(site: Site) -> None:
    answer = site.get(site.publish(embedded(site.run)))
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, "audio/wav", sound())
    answer = site.get(site.publish(video("large.webm")))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "video/webm")
    assert answer.body == LARGE


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-", 0, len(CLIP)),
        ("bytes=100-199", 100, 200),
        ("bytes=100-999999999", 100, len(CLIP)),
        ("bytes=-10", len(CLIP) - 10, len(CLIP)),
        ("bytes=-99999999", 0, len(CLIP)),
    ],
)
def test_a_part_is_sent(site: Site, asked: str, first: int, end: int) -> None:
    answer = site.get(site.publish(video("clip.webm")), Range=asked)
    assert (answer.status, answer.body) == (206, CLIP[first:end])
    assert answer.headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(CLIP)}"


@pytest.mark.parametrize("asked", [f"bytes={len(CLIP)}-", "bytes=9-3", "bytes=-0"])
def test_a_part_that_does_not_exist_is_416(site: Site, asked: str) -> None:
    answer = site.get(site.publish(video("clip.webm")), Range=asked)
    assert (answer.status, answer.headers["Content-Range"]) == (416, f"bytes */{len(CLIP)}")


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,3-4", "lines=1-2", "bytes=a-b", "bytes=-", "bytes=", f"bytes={'9' * 99}-"]
)
def test_a_range_that_is_not_understood_gets_the_whole_file(site: Site, asked: str) -> None:
    answer = site.get(site.publish(video("clip.webm")), Range=asked)
    assert (answer.status, answer.body) == (200, CLIP)


def test_head_sends_no_bytes(site: Site) -> None:
    answer = site.get(site.publish(video("clip.webm")), "HEAD")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, str(len(CLIP)), b"")


def test_the_answer_is_never_a_page(site: Site) -> None:
    """A polyglot begins as WAV and holds a script: the browser must neither guess its type nor run it."""
    answer = site.get(site.publish({"kind": "audio", "url": "both.wav"}))
    assert answer.body == polyglot()
    assert answer.headers["Content-Type"] == "audio/wav"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert policy == "default-src 'none'; sandbox; frame-ancestors 'self'"
    assert answer.headers["Content-Disposition"] == "inline"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert site.get("/").headers["Content-Security-Policy"].startswith("default-src 'self'; ")


def test_without_a_login_there_is_nothing(site: Site) -> None:
    path = site.publish(video("clip.webm"))
    assert ask(site.url, path).status == 401
    assert ask(site.url, path, headers={"Authorization": "Bearer wrong"}).status == 401
    assert site.get(path, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status == 403


def test_a_forged_address_names_nothing(site: Site) -> None:
    path = site.publish(video("clip.webm"))
    forged = [path[:-1], f"{path}x", f"{path}/", "/media/", "/media/clip.webm", "/media/%2e%2e%2fclip.webm"]
    forged += [f"/media/{site.folder}/clip.webm", "/media/../run/clip.webm", "/media/0", f"{path}%00"]
    assert {site.get(each).status for each in forged} <= {400, 404}


def test_another_pages_address_ends_with_that_page(site: Site) -> None:
    other = PageMedia(default_runtime().media)
    mine = site.publish(video("clip.webm"))
    snapshot = site.run.snapshot
    theirs = f"/{other.address('1', playable(site.run.index, snapshot, snapshot.uid(0), video('clip.webm')))}"
    assert theirs != mine
    assert site.get(theirs).status == 200
    other.close()
    assert site.get(theirs).status == 404
    assert site.get(mine).status == 200
    late = playable(site.run.index, snapshot, snapshot.uid(0), video("clip.webm"))
    assert site.get(f"/{other.address('2', late)}").status == 404


def test_a_file_that_became_something_else_is_not_sent(site: Site) -> None:
    path = site.publish(video("clip.webm"))
    (site.folder / "clip.webm").write_bytes(IMPOSTORS["page.webm"])
    assert b"script" not in (answer := site.get(path)).body
    assert answer.status == 404
    (site.folder / "clip.webm").write_bytes(sound(0.1))
    assert site.get(path).status == 404
    outside = site.folder.parent / "secret.webm"
    outside.write_bytes(CLIP)
    (site.folder / "clip.webm").unlink()
    (site.folder / "clip.webm").symlink_to(outside)
    assert site.get(path).status == 404


def test_a_huge_file_is_refused_before_it_is_read(site: Site) -> None:
    path = site.publish(video("clip.webm"))
    os.truncate(site.folder / "clip.webm", 3 << 30)
    assert site.get(path).status == 404
    os.truncate(site.folder / "clip.webm", 1 << 30)
    answer = site.get(path, Range="bytes=1073741800-")
    assert (answer.status, len(answer.body)) == (206, (1 << 30) - 1073741800)


def test_a_disk_that_does_not_answer_holds_nothing_else(site: Site) -> None:
    entered, released = threading.Event(), threading.Event()

    def read(length: int, offset: int) -> bytes:
        if length > HEAD:
            entered.set()
            released.wait(60)
        return CLIP[offset : offset + length]

    slow = PlayableMedium("video", "video/webm", lambda: OpenMedium(len(CLIP), read))
    path = f"/{site.page.address('slow', slow)}"
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(site.get(path)))
    asking.start()
    assert entered.wait(30)
    assert site.get("/health").status == 200
    assert not answers
    released.set()
    asking.join(30)
    assert [answer.body for answer in answers] == [CLIP]
