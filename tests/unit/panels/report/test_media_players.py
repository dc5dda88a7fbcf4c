"""Audio and video in a report: small ones are embedded after a check, all others are explained."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from rlpanel.api.open_run import open_run
from rlpanel.app.run_export import report_of
from rlpanel.number_text import size_text
from rlpanel.panels.report.carried_samples import MAX_EACH, MediaBudget, sample_players
from rlpanel.panels.report.report import frozen, sample_html
from rlpanel.panels.session.context import Context
from rlpanel.store.query.fetch_sample import fetch
from tests.conversations import write_agent_run
from tests.media import CLIP, IMPOSTORS, in_base64, polyglot, sound

_SOURCES = re.compile(r'<(audio|video) [^>]*src="data:([^;]*);base64,([^"]*)"></\1>')


def spoken(data: bytes) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": in_base64(data), "format": "wav"}}


def seen(address: str) -> dict[str, Any]:
    return {"type": "video", "video": address}


def line(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": [*parts]}, {"role": "assistant", "content": "A tone."}]
    return {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0} | fields


def page_of(folder: Path, *lines: dict[str, Any]) -> str:
    return report_of(open_run(write_agent_run(folder, *lines), follow=False), step=1).decode()


def sample_page_of(folder: Path, *lines: dict[str, Any]) -> str:
    """Return the page of the first sample, which is made in a tenth of the report's time."""
    run = open_run(write_agent_run(folder, *lines), follow=False)
    context = frozen(Context(index=run.index, view=run.view), step=1)
    return sample_html(context, run.snapshot.uid(0)).decode()


def policy_of(page: str) -> str:
    return re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]


def notes_of(page: str) -> list[str]:
    section = re.search(r'<section class="media">(.*?)</section>', page)
    return re.findall(r'<p class="note">(.*?)</p>', section[1])


def test_small_audio_and_video_are_embedded_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "clip.webm").write_bytes(CLIP)
    beside = f"data:;base64,{in_base64(sound(1.0))}"
    page = page_of(tmp_path, line(spoken(sound()), seen("clip.webm"), audios=[beside]))
    found = [(tag, of, base64.b64decode(data)) for tag, of, data in _SOURCES.findall(page)]
    assert found == [
        ("audio", "audio/wav", sound()),
        ("video", "video/webm", CLIP),
        ("audio", "audio/wav", sound(1.0)),
    ]
    assert f"audio · message 1, user, {size_text(len(sound()))}" in page
    assert f"audio · beside the messages, {size_text(len(sound(1.0)))}" in page
    assert "media-src data:;" in policy_of(page)
    assert "default-src &#x27;none&#x27;" in policy_of(page)


def test_a_report_without_players_allows_none(tmp_path: Path) -> None:
    assert "media-src" not in policy_of(page_of(tmp_path, line(seen("gone.webm"))))


def test_the_report_of_one_sample_has_its_players(tmp_path: Path) -> None:
    page = sample_page_of(tmp_path, line(spoken(sound())))
    assert len(_SOURCES.findall(page)) == 1
    assert "media-src data:;" in policy_of(page)


def test_a_large_file_is_described_and_not_embedded(tmp_path: Path) -> None:
    (tmp_path / "large.webm").write_bytes(CLIP + bytes(3_100_000 - len(CLIP)))
    page = page_of(tmp_path, line(seen("large.webm"), spoken(sound(300.0))))
    assert not _SOURCES.findall(page)
    assert notes_of(page) == [
        "video · message 1, user, 3.1 MB, not embedded: a report embeds files of at most 2 MB. "
        "The log names the file large.webm.",
        "audio · message 1, user, 2.4 MB, not embedded: a report embeds files of at most 2 MB. "
        "Its bytes are in the sample&#x27;s line.",
    ]
    assert "2 audio or video files; their samples say why" in page


def test_a_report_embeds_ten_megabytes_in_all(tmp_path: Path) -> None:
    (tmp_path / "clip.webm").write_bytes(CLIP + bytes(MAX_EACH - len(CLIP)))
    page = page_of(tmp_path, line(*[seen("clip.webm")] * 7))
    assert len(_SOURCES.findall(page)) == 5
    assert (
        notes_of(page)
        == [
            "video · message 1, user, 2 MB, not embedded: a report embeds at most 10 MB in all. "
            "The log names the file clip.webm."
        ]
        * 2
    )


def test_the_budget_bounds_the_files_that_are_read(tmp_path: Path) -> None:
    run = open_run(write_agent_run(tmp_path, line(*[seen("gone.webm")] * 5)), follow=False)
    context = frozen(Context(index=run.index, view=run.view), step=1)
    players = sample_players(context, fetch(run.index, run.view, 0), MediaBudget(read=3))
    assert players.html.count("cannot be read") == 3
    assert players.html.count("a report reads at most") == 2
    assert (players.embedded_chars, players.left_out) == (0, 5)


@pytest.mark.parametrize("name", IMPOSTORS)
def test_what_is_no_audio_or_video_is_not_embedded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(IMPOSTORS[name])
    page = sample_page_of(tmp_path, line(seen(name), spoken(IMPOSTORS[name] + bytes(100))))
    assert not _SOURCES.findall(page)
    assert [("in none of the containers" in note) for note in notes_of(page)] == [True, True]


def test_nothing_outside_of_the_run_is_embedded(tmp_path: Path) -> None:
    (tmp_path / "secret.webm").write_bytes(CLIP)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "link.webm").symlink_to(tmp_path / "secret.webm")
    outside = ["../secret.webm", str(tmp_path / "secret.webm"), "link.webm", "http://outside.invalid/a.webm"]
    page = sample_page_of(folder, line(*map(seen, outside)))
    assert not _SOURCES.findall(page)
    assert len(notes_of(page)) == 4


def test_types_and_names_of_the_log_never_become_html(tmp_path: Path) -> None:
    """A polyglot is named by its container, whatever type its data URL claims."""
    claimed = f"data:text/html;base64,{in_base64(polyglot())}"
    page = sample_page_of(
        tmp_path, line({"type": "audio_url", "audio_url": {"url": claimed}}, seen('"><img src=x>'))
    )
    assert [of for _, of, _ in _SOURCES.findall(page)] == ["audio/wav"]
    assert "<img src=x" not in page
    assert "&quot;&gt;&lt;img src=x&gt;" in notes_of(page)[0]
