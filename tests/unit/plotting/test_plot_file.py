"""Saved plots: HTML without network, PNG and SVG by the browser."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.panels.ui import theme


@pytest.fixture
def run(grpo: rlpanel.Run) -> rlpanel.Run:
    return grpo


def test_html_contains_its_scripts_and_forbids_to_load_others(run: rlpanel.Run, tmp_path: Path) -> None:
    path = tmp_path / "plot.html"
    run.plot.save(run.plot.curve("reward") + run.plot.distribution("reward"), path)
    page = path.read_text("utf-8")
    assert "default-src &#x27;none&#x27;" in page
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page.partition("<script>")[0]) == []
    assert "reward_mean" in page


def test_svg_has_the_texts_of_the_plot(run: rlpanel.Run, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    run.plot.save(run.plot.curve("reward") + run.plot.distribution("reward", 30), path)
    svg = path.read_text("utf-8")
    assert svg.startswith("<svg")
    assert "reward, mean and quartiles (25–75%)" in svg
    assert "step 30: 64 samples" in svg


def test_png_has_two_pixels_for_each_of_the_plot(run: rlpanel.Run, tmp_path: Path) -> None:
    path = tmp_path / "plot.PNG"
    run.plot.save(run.plot.scatter("response_tokens", "reward", 30, width=300, height=200), path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (600, 400)


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_the_page_has_the_surface_of_the_theme(run: rlpanel.Run, tmp_path: Path, dark: bool) -> None:
    path = tmp_path / "plot.html"
    run.plot.save(run.plot.curve("reward", dark=dark), path)
    assert f"html {{ background: {theme.palette(dark)['surface']} }}" in path.read_text("utf-8")


def test_without_a_browser_the_error_says_what_to_do(
    run: rlpanel.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(
        SettingError, match="PNG and SVG are drawn by Chromium or Chrome, and none is on PATH"
    ):
        run.plot.save(run.plot.curve("reward"), tmp_path / "plot.png")
    run.plot.save(run.plot.curve("reward"), tmp_path / "plot.html")


def test_a_browser_that_draws_nothing_is_an_error(
    run: rlpanel.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\necho no display >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(program))
    with pytest.raises(SettingError, match=r"did not draw the plot: no display; save as \.html"):
        run.plot.save(run.plot.curve("reward"), tmp_path / "plot.svg")
    assert not (tmp_path / "plot.svg").exists()


def test_another_ending_is_an_error(run: rlpanel.Run, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"plot.pdf: plots are saved as .html, .png, .svg"):
        run.plot.save(run.plot.curve("reward"), tmp_path / "plot.pdf")
