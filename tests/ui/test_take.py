"""Export of a card's plot and numbers: compared with the log, in dark and light, and with a hostile log.

``RLPANEL_SHOTS=1`` writes the picture in the docs.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import Download, Locator, expect

from rlpanel.app.demo import write_recording
from tests.ui.board import BoardPage
from tests.ui.conftest import Profile
from tests.ui.raw import band, raw_frame
from tests.ui.test_hostile import NAMED, SENTRY, hostile_root, nothing_ran
from tests.ui.test_screenshots import IMAGES

pytestmark = pytest.mark.slow

PPO = "couplets-ppo"
HOSTILE = f"a{NAMED}"
SVG = "{http://www.w3.org/2000/svg}"
#: Elements of an exported SVG; none of them runs or loads anything except the embedded images.
SHAPES = {"svg", "g", "path", "rect", "text", "defs", "clipPath", "image", "use", "symbol"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = hostile_root(tmp_path_factory.mktemp("root"))
    write_recording("ppo_couplets", folder / PPO)
    return folder


@pytest.fixture(scope="module", autouse=True)
def sentry(profile: Profile) -> None:
    profile.context.add_init_script(SENTRY)


def take(board: BoardPage, card: Locator, kind: str) -> Download:
    card.locator(".rl-take summary").click()
    with board.page.expect_download() as taken:
        card.locator(".rl-take .list button").filter(has_text=re.compile(f"^{kind}$")).click()
    return taken.value


def texts(svg: Path) -> list[str]:
    return [node.text or "" for node in ElementTree.parse(svg).iter(f"{SVG}text")]


def test_a_card_is_taken_away_as_numbers_and_as_a_picture_in_both_themes(
    board: BoardPage, root: Path
) -> None:
    board.go(run=PPO, step=9).settled(9)
    curve, bars = board.curve("Reward"), board.page.locator(".rl-distribution")
    raw = raw_frame(root / PPO)
    taken = take(board, curve, "CSV")
    assert taken.suggested_filename == f"{PPO}-reward-to-step-60.csv"
    found = pd.read_csv(taken.path()).query("curve == 'reward'")
    columns = {"x": "step", "y": "mean", "lo": "lo", "hi": "hi", "n": "n"}
    for key, values in band(raw, "reward").items():
        np.testing.assert_allclose(found[columns[key]], values, rtol=1e-9, err_msg=key)
    counted = pd.read_csv(take(board, bars, "CSV").path())
    assert counted.reward.sum() == (raw.step == 9).sum()

    for theme, ground in {"dark": (0x15, 0x1A, 0x21), "light": (255, 255, 255)}.items():
        board.go(run=PPO, step=9, theme=theme)
        expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
        for card, title in ((curve, "Reward"), (bars, "Reward")):
            svg = Path(take(board, card, "SVG").path())
            assert texts(svg)[0] == title
            if os.environ.get("RLPANEL_SHOTS") and (card, theme) == (curve, "dark"):
                shutil.copy(svg, IMAGES / "curve.svg")
            with Image.open(take(board, card, "PNG").path()) as picture:
                seen = np.asarray(picture.convert("RGB"))
            assert tuple(seen[4, 4]) == ground
            assert len(np.unique(seen.reshape(-1, 3), axis=0)) > 50, "a plot is in it"


def test_a_picture_holds_names_of_a_log_as_text(board: BoardPage) -> None:
    board.go(run=HOSTILE, step=1, curves=f"x{NAMED}", theme="dark").settled(1)
    curve = board.page.locator(".rl-curve").filter(has_text="<img class=evil")
    bars = board.page.locator(".rl-distribution").filter(has_text="step 1, n = 4")
    for card in (curve, bars):
        taken = take(board, card, "SVG")
        assert taken.suggested_filename.endswith(".svg")
        svg = Path(taken.path())
        assert {node.tag.removeprefix(SVG) for node in ElementTree.parse(svg).iter()} <= SHAPES
        assert "<img class=evil" in " ".join(texts(svg))
        take(board, card, "PNG")
    nothing_ran(board.page)


#: Width in pixels of the area in which a figure draws.
_FRAME = "(node) => Bokeh.index.query_one((view) => view.el === node).frame.bbox.width"


def test_a_plot_within_a_card_has_a_menu_of_its_own(board: BoardPage, root: Path) -> None:
    board.go(run=HOSTILE, step=1, against=PPO, page="samples").settled(1)
    board.tab("History")
    reward, length = (board.page.locator(".rl-over-time .rl-plot").nth(at) for at in range(2))
    for plot, title in ((reward, "Reward"), (length, "Length")):
        svg = Path(take(board, plot, "SVG").path())
        assert texts(svg)[0] == f"{title} of one prompt over steps"
        assert "<img class=evil" in " ".join(texts(svg))
    nothing_ran(board.page)
    board.go(run=PPO, step=60, tab="prompt").settled(60)
    raw = raw_frame(root / PPO)
    [prompt] = raw.prompt[raw.uid == board.uid()]
    raw = raw[raw.prompt == prompt]
    expect(board.page.locator(".rl-over-time-note")).to_contain_text(f"{len(raw)} samples at")
    for plot in (reward, length):
        board.until(lambda plot=plot: plot.locator(".bk-Figure").evaluate(_FRAME) > 100, "the plot has room")
    seen = pd.read_csv(take(board, reward, "CSV").path())
    assert seen.uid.tolist() == raw.uid.tolist()
    assert seen.reward.tolist() == raw.reward.tolist()


def test_a_plot_that_replaced_another_has_its_name_and_is_saved(board: BoardPage) -> None:
    board.go(run=PPO, step=9, theme="dark").settled(9)
    board.choose_band("density")
    curve = board.curve("Reward")
    expect(board.page.locator(".rl-curve-bar .said")).to_have_text("density")
    expect(curve.get_by_role("img", name="Plot of Reward")).to_be_visible()
    assert texts(Path(take(board, curve, "SVG").path()))[0] == "Reward"
    board.choose_band("IQR (25–75%)")
    expect(board.page.locator(".rl-curve-bar .said")).not_to_contain_text("density")
