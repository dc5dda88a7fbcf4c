"""The animations of the documentation: a run that grows, and the way from a finding to a token.

``RLPANEL_SHOTS=1`` writes them into ``docs/images``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, expect

from rlpanel.app.demo import ROLLOUTS, SCALARS, read_recording, write_recording
from tests.conftest import watch_for_trouble
from tests.factories import append
from tests.ui.animation import SCALE, VIEW, Animation
from tests.ui.board import BoardPage, Served, ServerLog
from tests.ui.conftest import NO_HINT

pytestmark = pytest.mark.slow

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 1_500_000
SAMPLES = 64
#: Steps that are there when the animation begins, and at its last frame.
FIRST, LAST = 8, 28


@pytest.fixture
def wide_board(browser: Browser, served: Served, server_log: ServerLog) -> Iterator[BoardPage]:
    """A board that is drawn 1000 pixels wide."""
    server_log.take()
    context = browser.new_context(
        viewport=VIEW, device_scale_factor=SCALE, color_scheme="dark", reduced_motion="reduce", locale="en-US"
    )
    context.add_init_script(NO_HINT)
    trouble = watch_for_trouble(context)
    yield BoardPage(context.new_page(), served.url)
    context.close()
    assert trouble == []
    assert server_log.take() == []


def saved(animation: Animation, name: str, tmp_path: Path) -> int:
    """Write the animation, for the docs if that is requested; return the number of its frames."""
    path = (IMAGES if os.environ.get("RLPANEL_SHOTS") else tmp_path) / name
    animation.save(path)
    assert path.stat().st_size < MAX_BYTES
    with Image.open(path) as written:
        return int(getattr(written, "n_frames", 1))


def changed(animation: Animation) -> list[bool]:
    """Return for each frame but the first whether it differs from the one before."""
    pairs = zip(animation.frames[:-1], animation.frames[1:], strict=True)
    return [ImageChops.difference(*pair).getbbox() is not None for pair in pairs]


def test_a_run_grows(wide_board: BoardPage, root: Path, tmp_path: Path) -> None:
    content = {name: data.splitlines(True) for name, data in read_recording("grpo_couplets").items()}
    run = root / "couplets-grpo"
    run.mkdir()

    def write(steps: range) -> None:
        for step in steps:
            append(run / ROLLOUTS, *content[ROLLOUTS][step * SAMPLES : (step + 1) * SAMPLES])
            append(run / SCALARS, content[SCALARS][step])

    write(range(FIRST))
    board = wide_board.open(run=run.name, theme="dark")
    animation = Animation(board.page)
    board.settled(FIRST)
    animation.take(800)
    for step in range(FIRST, LAST):
        write(range(step, step + 1))
        board.settled(step + 1)
        board.until(lambda step=step: board.source("reward")["x"][-1] == step + 1, "the curve grows")
        animation.take(350 if step < LAST - 1 else 2500)
    assert all(changed(animation))
    assert saved(animation, "live.gif", tmp_path) == LAST - FIRST + 1


def test_a_finding_leads_to_a_token(wide_board: BoardPage, root: Path, tmp_path: Path) -> None:
    run = write_recording("grpo_couplets", root / "grpo")
    board = wide_board.open(run=run.name, theme="dark").settled()
    badge = board.page.locator(".rl-findings summary.pill")
    expect(badge.locator(".count").first).to_be_visible()
    animation = Animation(board.page)
    animation.take(1200)
    animation.click(badge)
    item = board.page.locator(".rl-findings .finding").filter(has_text="Invalid UTF-8").first
    item.wait_for(state="attached")
    if not item.is_visible():
        animation.click(board.page.locator(".rl-findings .earlier > summary"))
    animation.click(item.locator(".sentence").first)
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Finding: Invalid UTF-8")
    expect(board.page.get_by_role("tab", name="Tokens", selected=True)).to_be_visible()
    text = board.page.locator(".rl-tokens-text")
    tokens = text.locator("[data-i]")
    expect(tokens.first).to_be_visible()
    animation.take(2200)
    first = text.text_content() or ""
    animation.click(board.rows.nth(1))
    expect(board.rows.nth(1)).to_contain_class("tabulator-selected")
    # The row is selected before its tokens replace those of the sample before.
    expect(text).not_to_have_text(first)
    animation.take(1200)
    animation.click(tokens.first)
    expect(board.page.locator(".rl-pin .rl-tip-head")).to_contain_text("#")
    animation.take(3000)
    assert saved(animation, "finding.gif", tmp_path) == len(animation.frames)


def test_the_cause_of_a_collapse_is_found_in_three_clicks(
    wide_board: BoardPage, root: Path, tmp_path: Path
) -> None:
    """The first picture of the README: the finding, the conversation, and a sample with the same error."""
    if not (root / "calculator-grpo").exists():
        write_recording("grpo_calculator", root / "calculator-grpo")
    board = wide_board.open(run="calculator-grpo", step=40, theme="dark").settled(40)
    animation = Animation(board.page)
    current = board.page.locator(".rl-current-findings .sentence")
    expect(current).to_contain_text("rollouts that call add have an error")
    animation.take(2500)
    current.click()
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("A tool fails")
    board.settled()
    animation.take(2000)
    board.page.get_by_role("tab", name="Conversation", exact=True).click()
    failed = board.page.locator(".rl-conversation .answer.wrong").first
    expect(failed).to_contain_text("calculator unavailable")
    animation.take(3000)
    board.rows.nth(2).locator(".tabulator-cell").first.click()
    expect(failed).to_contain_text("calculator unavailable")
    board.settled()
    animation.take(3000)
    assert saved(animation, "cause.gif", tmp_path) == 4
