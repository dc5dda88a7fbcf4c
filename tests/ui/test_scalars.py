"""The trainer's scalars among the curves, and value distributions over the run, compared with the file."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from rlpanel.number_text import number
from tests.factories import append, line, write_run
from tests.ui.board import BoardPage
from tests.ui.raw import raw_frame

pytestmark = pytest.mark.slow

PPO = "couplets-ppo"
#: The heatmap in the browser: its colours by column, and its position.
_DENSITY = """() => {
    const sources = Bokeh.documents.flatMap((doc) => [...doc.all_models])
        .filter((model) => model.type === "ColumnDataSource" && model.name === "density")
    return sources.map((source) => {
        const image = source.get_array("image")[0]
        const place = ["x", "y", "dw", "dh"].map((key) => source.get_array(key)[0])
        return image && {shades: Array.from(image), shape: image.shape, place}
    })
}"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_recording("ppo_couplets", root / PPO)
    grown = write_run(root / "grown", steps=3, samples=8)
    append(grown / "scalars.jsonl", b'{"step": 1, "loss": 2.0}\n')
    return root


def logged(run: Path, name: str) -> pd.Series:
    frame = pd.read_json(run / "scalars.jsonl", lines=True, precise_float=True)
    return frame.set_index("step")[name].dropna().groupby(level=0).last()


def test_the_trainers_log_is_drawn_and_lies_over_what_it_equals(board: BoardPage, root: Path) -> None:
    board.go(run=PPO, step=9, curves="log_ratio_sum,log:loss/policy_avg").settled(9)
    for name in ("loss/policy_avg", "objective/kl"):
        wanted = logged(root / PPO, name)
        board.until(lambda name=name: f"log:{name}" in board.sources(), f"the curve of {name}")
        shown = board.source(f"log:{name}")
        np.testing.assert_array_equal(shown["x"], wanted.index)
        np.testing.assert_allclose(shown["y"], wanted)
    board.head_says("loss/policy_avg", number(logged(root / PPO, "loss/policy_avg")[9]))
    same = board.curve("Log-ratio").locator(".log:visible")
    expect(same).to_have_text("matches trainer log")
    assert "objective/kl. Both are equal at 60 points." in (same.get_attribute("title") or "")


def test_a_new_scalar_is_a_point(board: BoardPage, root: Path) -> None:
    board.go(run="grown", curves="log:loss").settled(3)
    append(root / "grown" / "scalars.jsonl", json.dumps({"step": 2, "loss": 0.125}).encode() + b"\n")
    board.until(lambda: board.source("log:loss")["y"].tolist() == [2.0, 0.125], "the loss has a second point")


def test_a_density_holds_the_files_values_and_a_shift_click_lists_them(board: BoardPage, root: Path) -> None:
    board.go(run=PPO, step=9, curves="kl_k3_sum").settled(9)
    expect(board.badge).to_contain_text("3,840 samples")
    board.choose_band("density")
    board.until(lambda: any(board.page.evaluate(_DENSITY)), "the browser holds a heatmap")
    (drawn,) = [one for one in board.page.evaluate(_DENSITY) if one]
    left, low, width, height = drawn["place"]
    image = np.array(drawn["shades"]).reshape(drawn["shape"])
    frame = raw_frame(root / PPO)
    edges = np.linspace(low, low + height, image.shape[0] + 1)
    inside = frame.kl_k3_sum.clip(edges[0] + 1e-9, edges[-1] - 1e-9)
    part = pd.cut(inside, edges, labels=False, right=False)
    counts = pd.crosstab(frame.step, part).reindex(columns=range(len(edges) - 1), fill_value=0)
    wanted = np.ceil(np.sqrt(counts.div(counts.max(axis=1), axis=0)) * 63)
    assert (left, width) == (0.5, image.shape[1])
    np.testing.assert_array_equal(image[:, : len(counts)], wanted.T)
    assert not image[:, len(counts) :].any()

    box = board.curve("KL k3").locator("canvas").first.bounding_box()
    assert box is not None
    board.page.keyboard.down("Shift")
    board.page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.55)
    board.page.keyboard.up("Shift")
    board.until(lambda: "filter=" in board.page.url, "the range stands in the address")
    query = dict(parse_qsl(urlsplit(board.page.url).query))
    step, within = int(query["step"]), query["filter"].replace("`", "")
    found = frame.query(f"step == {step} and {within}")
    assert 0 < len(found) < 64
    expect(board.count).to_have_text(f"{len(found)} of 64 match")
    board.page.get_by_label("filter expression").fill("")
    board.press("Enter")
    expect(board.count).to_have_text(f"64 of step {step}")
    board.choose_band("± 1σ")


@pytest.mark.parametrize("band", ["density", "ridge"])
def test_a_spread_follows_the_run(board: BoardPage, root: Path, band: str) -> None:
    newest = int(raw_frame(root / "grown").step.max()) + 1
    board.go(run="grown", curves="reward").settled(newest - 1)
    board.choose_band(band)
    expect(board.curve("Reward").locator("canvas").first).to_be_visible()
    expect(board.page.locator(".rl-curve-bar .said")).to_contain_text(band)
    append(root / "grown" / "rollout_data_rank_0.jsonl", *(line(newest, index=i) for i in range(8)))
    board.at_step(newest)
    expect(board.curve("Reward").locator("canvas").first).to_be_visible()
    board.choose_band("± 1σ")
