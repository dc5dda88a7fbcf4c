"""Audio and video in a conversation: they play from the server's own route, and impostors do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.conversations import data_url, picture, write_agent_run
from tests.integration.http_client import ask
from tests.media import CLIP, IMPOSTORS, in_base64, sound
from tests.ui.board import BoardPage, cells_of
from tests.ui.conftest import OpenBoard, Profile
from tests.ui.test_hostile import SENTRY, nothing_ran

pytestmark = pytest.mark.slow


def line(*parts: dict[str, object], **fields: object) -> dict[str, object]:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]},
        {"role": "assistant", "content": "A tone."},
    ]
    return {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0} | fields


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, profile: Profile) -> None:
    profile.context.add_init_script(SENTRY)
    (root / "media" / "clips").mkdir(parents=True)
    (root / "media" / "clips" / "clip.webm").write_bytes(CLIP)
    spoken = {"type": "input_audio", "input_audio": {"data": in_base64(sound()), "format": "wav"}}
    seen = {"type": "video_url", "video_url": {"url": "clips/clip.webm"}}
    image = {"type": "image_url", "image_url": {"url": data_url(picture())}}
    beside = f"data:;base64,{in_base64(sound(1.0))}"
    write_agent_run(
        root / "media",
        line(spoken, seen),
        line(image, spoken),
        {"step": 1, "prompt": "Listen.", "response": "A tone.", "audios": [beside]},
        {"step": 1, "prompt": "Read.", "response": "Done."},
    )
    asked = [line(image, image, group="a", reward=reward) for reward in (0.0, 1.0, 0.5)]
    write_agent_run(root / "charts", *asked)
    (root / "impostors").mkdir()
    (root / "secret.wav").write_bytes(sound(0.1))
    (root / "impostors" / "link.wav").symlink_to(root / "secret.wav")
    for name, content in IMPOSTORS.items():
        (root / "impostors" / name).write_bytes(content)
    addresses = [
        *IMPOSTORS,
        "link.wav",
        "../secret.wav",
        str(root / "secret.wav"),
        "http://outside.invalid/a.mp4",
    ]
    addresses += [
        "//outside.invalid/a.mp4",
        "javascript:window.ran=1",
        "<img src=x onerror=window.ran=1>.mp4",
    ]
    write_agent_run(root / "impostors", line(*({"type": "video", "video": each} for each in addresses)))


def players(board: BoardPage) -> Locator:
    return board.page.locator(".rl-conversation .player")


def played(board: BoardPage, player: Locator) -> None:
    """Play a medium without sound, until its time has passed the start."""
    player.evaluate("(player) => { player.muted = true; return player.play(); }")
    board.until(lambda: player.evaluate("(player) => player.currentTime") > 0.2, "the time goes on")


def test_audio_and_video_of_a_message_play(board: BoardPage) -> None:
    board.go(run="media").settled()
    board.tab("Conversation")
    audio, video = players(board).locator("audio"), players(board).locator("video")
    expect(audio).to_have_attribute("src", re.compile(r"^media/[\w-]{43}$"))
    board.until(lambda: audio.evaluate("(player) => player.duration") == 2.0, "the duration is known")
    played(board, audio)
    board.until(lambda: video.evaluate("(player) => player.videoWidth") == 64, "the picture is known")
    played(board, video)
    audio.evaluate("(player) => { player.currentTime = 1.5; }")
    board.until(lambda: audio.evaluate("(player) => player.currentTime") >= 1.5, "another place is found")


def test_a_player_goes_on_in_another_mode_and_stops_with_its_sample(board: BoardPage) -> None:
    board.go(run="media").settled()
    board.tab("Conversation")
    audio = players(board).locator("audio")
    board.until(lambda: audio.evaluate("(player) => player.duration") == 2.0, "the duration is known")
    audio.evaluate("(player) => { window.kept = player; player.muted = true; player.loop = true; }")
    played(board, audio)
    board.page.locator(".rl-conversation .mode").get_by_text("Raw", exact=True).click()
    assert audio.evaluate("(player) => player === window.kept")
    board.tab("Text")
    board.until(lambda: board.page.evaluate("window.kept.paused"), "a closed tab plays nothing")
    board.tab("Conversation")
    played(board, audio)
    board.rows.nth(1).click()
    expect(players(board)).to_have_count(1)
    assert board.page.evaluate("window.kept.paused")


def test_audio_beside_the_messages_stands_at_the_question(board: BoardPage) -> None:
    board.go(run="media").settled()
    board.rows.nth(2).click()
    board.tab("Conversation")
    audio = players(board).locator("audio")
    board.until(lambda: audio.evaluate("(player) => player.duration") == 1.0, "the duration is known")


def test_the_grid_marks_samples_with_audio_or_video(board: BoardPage) -> None:
    board.go(run="media").settled()
    images = board.rows.locator(f"{cells_of('thumbnail')} img")
    expect(images.nth(0)).to_have_attribute("src", re.compile("^data:image/svg"))
    expect(images.nth(1)).to_have_attribute("src", re.compile("^data:image/(png|jpeg)"))
    expect(images.nth(2)).to_have_attribute("src", re.compile("^data:image/svg"))
    expect(images.nth(3)).to_have_attribute("src", re.compile("^data:image/gif"))
    assert images.nth(0).get_attribute("src") != images.nth(2).get_attribute("src")


def test_a_group_shows_the_images_of_its_prompt_once_above_its_samples(board: BoardPage) -> None:
    board.go(run="charts", tab="group").settled()
    images = board.page.locator(".rl-group-tab img:visible")
    expect(images).to_have_count(2)
    expect(images.first).to_have_attribute("src", re.compile("^data:image/(png|jpeg)"))
    cards = board.page.locator(".rl-group-tab .card")
    expect(cards).to_have_count(3)
    above, below = images.first.bounding_box(), cards.first.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] < below["y"]
    board.page.get_by_label("Groups", exact=True).select_option(label="All groups of the step")
    expect(images).to_have_count(0)


def test_what_is_no_audio_or_video_gets_no_player(board: BoardPage) -> None:
    board.go(run="impostors").settled()
    board.tab("Conversation")
    expect(players(board)).to_have_count(len(IMPOSTORS) + 7)
    expect(players(board).locator(".quiet")).to_have_count(len(IMPOSTORS) + 7)
    expect(players(board).locator("audio, video")).to_have_count(0)
    reasons = players(board).all_inner_texts()
    assert sum("in none of the containers" in reason for reason in reasons) == len(IMPOSTORS)
    assert sum("is on another machine" in reason for reason in reasons) == 2
    nothing_ran(board.page)


def test_the_address_ends_with_the_page(open_board: OpenBoard) -> None:
    board = open_board(run="media").settled()
    board.tab("Conversation")
    audio = players(board).locator("audio")
    expect(audio).to_have_count(1)
    path = f"/{audio.get_attribute('src')}"
    assert ask(board.url, path).status == 200
    board.go(run="impostors").settled()
    board.until(lambda: ask(board.url, path).status == 404, "the address is gone")
