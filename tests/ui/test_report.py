"""The exported HTML of the board and of a sample: opened without network and compared with the log."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, expect

from rlpanel.app.demo import write_recording
from rlpanel.app.run_export import export
from rlpanel.number_text import number
from tests.conversations import write_agent_run
from tests.media import CLIP, IMPOSTORS, polyglot
from tests.ui.board import BoardPage
from tests.ui.raw import band, raw_frame
from tests.ui.report_page import ReportPage, opened
from tests.ui.test_hostile import NAMED, SENTRY, hostile_root, nothing_ran

pytestmark = pytest.mark.slow

RUN = "couplets-ppo"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("ppo_couplets", root / RUN)


@pytest.fixture(scope="module")
def raw(root: Path) -> pd.DataFrame:
    return raw_frame(root / RUN)


def test_a_report_shows_the_numbers_of_the_log_without_a_network(
    browser: Browser, root: Path, raw: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    size = export(root / RUN, path, step=9, filter="reward < 1.5", sort="-kl_k3_sum", samples=5)
    assert size == path.stat().st_size < 3e6
    hits = raw[(raw.step == 9) & (raw.reward < 1.5)]
    wanted = hits.sort_values("kl_k3_sum", ascending=False, kind="stable").head(5)
    with opened(browser, path) as report:
        for name, column in {"reward": "reward", "kl_k3_mean": "kl_k3", "response_tokens": "tokens"}.items():
            found = report.source(name)
            for key, values in band(raw, column).items():
                assert found[key] == pytest.approx(values, abs=1e-9, nan_ok=True), (name, key)
        assert report.cells("kl_k3_sum") == [number(value) for value in wanted.kl_k3_sum]
        assert report.fact("Filter") == "reward < 1.5"
        assert f"{len(hits)} of 64 match; 5 of them included" in report.fact("Samples")
        assert "does not change" in report.fact("Created")
        assert "3,835 other samples" in report.fact("Not included")
        report.page.locator("tr[data-sample]").nth(2).click()
        third = wanted.iloc[2]
        expect(report.shown.locator('[data-text="response"] p')).to_have_text(third.response)
        token = report.shown.locator('.token[data-i="1"]')
        token.click()
        pinned = report.shown.locator('.rl-pin [data-row="log_ratio"] dd')
        expect(pinned).to_contain_text(f"{third.logprobs[1] - third.ref_logprobs[1]:+.4f}")
        before = token.evaluate("(node) => node.style.backgroundColor")
        report.shown.get_by_role("button", name="value", exact=True).first.click()
        assert token.evaluate("(node) => node.style.backgroundColor") != before
        report.page.keyboard.press("j")
        expect(report.shown.locator("h3")).to_contain_text("Sample 4")
        report.page.go_back()
        expect(report.shown.locator("h3")).to_contain_text("Sample 3")
        assert [colors(report, scheme) for scheme in ("dark", "light")] == [
            ("rgb(14, 17, 22)", "#ff9d5c"),
            ("rgb(246, 247, 249)", "#b84c0a"),
        ]


def colors(report: ReportPage, scheme: str) -> tuple[str, str]:
    """Return the colours of the page and of a curve, for a dark or a light system."""
    report.page.emulate_media(color_scheme=scheme)
    expect(report.shown.locator(".rl-tokens.dark")).to_have_count(1 if scheme == "dark" else 0)
    line = "[...Bokeh.documents[0].all_models].find((model) => model.type === 'Line').line_color.value"
    page = "getComputedStyle(document.body).backgroundColor"
    return report.page.evaluate(page), report.page.evaluate(line)


def test_nothing_that_a_log_says_is_run_in_a_report(browser: Browser, tmp_path: Path) -> None:
    folder = hostile_root(tmp_path / "root")
    path = tmp_path / f"report{NAMED}.html"
    export(folder / f"a{NAMED}", path, step=1, sort=f"x{NAMED}", filter='prompt contains "<img class=evil"')
    with opened(browser, path, SENTRY) as report:
        expect(report.page.locator("h1")).to_have_text(f"a{NAMED}")
        for row in range(4):
            report.page.locator("tr[data-sample]").nth(row).click()
            expect(report.shown.locator("h3")).to_contain_text(f"Sample {row + 1}")
            expect(report.shown.locator(".token").first).to_contain_text("onerror")
            report.shown.locator(".token").first.hover()
            expect(report.shown.locator('[data-text="response"] p')).to_contain_text("onerror")
            # A click on a summary may hide those of inner folds.
            report.shown.locator("details").evaluate_all(
                "(all) => all.forEach((fold) => { fold.open = true })"
            )
        nothing_ran(report.page)


def test_the_board_and_a_sample_are_taken_as_they_are_shown(
    board: BoardPage, browser: Browser, raw: pd.DataFrame, tmp_path: Path
) -> None:
    board.go(run=RUN, step=9, sort="reward").settled(9)
    board.rows.nth(3).click()
    uid = raw[raw.step == 9].sort_values("reward", kind="stable").iloc[3].uid
    board.shows(uid)
    board.page.locator(".rl-query").get_by_text("Export ▾").click()
    with board.page.expect_download() as taken:
        board.page.get_by_role("button", name="Board as one HTML file").click()
    assert taken.value.suggested_filename == f"{RUN}-step-9.html"
    taken.value.save_as(tmp_path / "board.html")
    with board.page.expect_download() as saved:
        board.actions().get_by_role("button", name="HTML").click()
    saved.value.save_as(tmp_path / "sample.html")
    curve = board.source("reward")
    response = raw.set_index("uid").response[uid]
    with opened(browser, tmp_path / "board.html") as report:
        assert {key: report.source("reward")[key].tolist() for key in curve} == {
            key: values.tolist() for key, values in curve.items()
        }
        assert report.cells("reward")[:20] == board.column("reward")
        expect(report.shown.locator('[data-text="response"] p')).to_have_text(response)
    with opened(browser, tmp_path / "sample.html") as report:
        assert report.fact("Sample") == uid
        assert report.page.locator("canvas.rl-strip").count() == 1
        expect(report.shown.locator('[data-text="response"] p')).to_have_text(response)
    assert (tmp_path / "sample.html").stat().st_size < 200_000


def test_audio_and_video_of_a_report_play_without_a_network(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    damaged = CLIP[:60] + bytes(500)
    for name, content in {"clip.webm": CLIP, "damaged.webm": damaged, "both.wav": polyglot()}.items():
        (folder / name).write_bytes(content)
    for name, content in IMPOSTORS.items():
        (folder / name).write_bytes(content)
    parts = [{"type": "video", "video": name} for name in ("clip.webm", "damaged.webm", *IMPOSTORS)]
    audio = {"type": "audio", "audio": "both.wav"}
    messages = [{"role": "user", "content": [*parts, audio]}, {"role": "assistant", "content": "A tone."}]
    other = {"step": 1, "prompt": "Listen.", "response": "Done.", "reward": 0.0}
    write_agent_run(folder, {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0}, other)
    export(folder, tmp_path / "report.html", step=1, sort="-reward")
    with opened(browser, tmp_path / "report.html", SENTRY) as report:
        players = report.shown.locator("audio, video")
        expect(players).to_have_count(2)
        expect(report.shown.locator(".media .note")).to_have_count(len(IMPOSTORS) + 1)
        expect(report.shown.locator(".media .note").first).to_contain_text(
            "This browser cannot play the video"
        )
        video, sound = players.first, players.last
        video.evaluate("(player) => { player.muted = true; player.loop = true; return player.play(); }")
        board = BoardPage(report.page, "")
        board.until(lambda: video.evaluate("(player) => player.currentTime") > 0.2, "the time goes on")
        assert video.evaluate("(player) => player.videoWidth") == 64
        assert sound.evaluate("(player) => player.duration") == pytest.approx(0.1)
        video.evaluate("(player) => { window.kept = player; }")
        report.page.keyboard.press("j")
        expect(report.shown.locator("h3")).to_contain_text("Sample 2")
        assert report.page.evaluate("window.kept.paused")
        nothing_ran(report.page)
