"""A run and a sample in a notebook: their numbers, and texts that never run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rlpanel
from rlpanel.number_text import number
from tests.factories import append, line, write_run

HOSTILE = '</pre></details><script>alert(1)</script><img src=x onerror="alert(1)">'


class Tags(HTMLParser):
    """Collects the elements and the texts of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def html_of(shown: object) -> str:
    return shown._repr_html_()  # type: ignore[attr-defined,no-any-return]


def test_a_run_shows_its_size_its_curve_and_its_findings(grpo: rlpanel.Run) -> None:
    found = Tags(html_of(grpo))
    assert "60 steps (1–60) · 3,840 samples · 1 rank" in found.text
    rewards = grpo.steps.reward_mean
    assert f"{number(rewards.iloc[0])} → {number(rewards.iloc[-1])}" in found.text
    assert {"svg", "polyline", "polygon"} <= found.names
    assert grpo.findings.sentence[0] in found.text
    assert grpo.findings.severity[0] in found.text


def test_a_run_without_samples_or_rewards_shows_its_name(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=1, samples=1, drop=("reward",)), follow=False)
    assert "svg" not in Tags(html_of(run)).names
    assert "1 step (1–1) · 1 sample ·" in Tags(html_of(run)).text


def test_the_name_of_a_run_stays_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "<img src=x onerror=alert(1)>", steps=1)
    html = html_of(rlpanel.open_run(folder, follow=False))
    assert "img" not in Tags(html).names
    assert "<img src=x" in Tags(html).text


def test_a_sample_shows_its_numbers_and_folds_its_texts(grpo: rlpanel.Run) -> None:
    sample = grpo.sample(grpo.samples(30).uid[0])
    html = html_of(sample)
    found = Tags(html)
    assert re.findall(r"<summary><b>([^<]*)</b>", html) == ["prompt", "response", "ground truth"]
    assert str(sample.response) in found.text
    assert f"reward{number(sample.reward)}" in found.text.replace("\n", "")
    assert f"kl_k3_mean{number(sample.columns['kl_k3_mean'])}" in found.text
    assert "nan" not in re.sub(r"<[^>]*>", "", html).lower().split()


@pytest.mark.parametrize("field", ["prompt", "response", "ref_response", "ground_truth", "group"])
def test_hostile_texts_of_a_sample_stay_text(tmp_path: Path, field: str) -> None:
    append(tmp_path / "r.jsonl", line(1, **{field: HOSTILE}))
    run = rlpanel.open_run(tmp_path, follow=False)
    found = Tags(html_of(run.sample(run.samples().uid[0])))
    assert not {"script", "img"} & found.names
    assert HOSTILE in found.text


def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    append(tmp_path / "r.jsonl", line(1, response="x" * 30_000))
    run = rlpanel.open_run(tmp_path, follow=False)
    html = html_of(run.sample(run.samples().uid[0]))
    assert "(30,000 characters)" in html
    assert "… 10,000 more characters" in html
    assert html.count("x" * 20_000) == 1
    assert "x" * 20_001 not in html
