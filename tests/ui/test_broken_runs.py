"""Ten kinds of broken runs: at most three clicks lead from the open page to a sample that shows the cause.

``RLPANEL_SHOTS=1`` writes a screenshot of each into ``docs/images/findings``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.bench.broken_runs.kinds import Truth, broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.ui.board import BoardPage

pytestmark = pytest.mark.slow

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "findings"
#: Logged steps between the true onset and the step that is shown, at most.
NEAR = 2
#: A line of a log, and all lines of its step.
Line = dict[str, Any]
Shows = Callable[[Line, list[Line]], bool]


@dataclass(frozen=True)
class Case:
    """A kind of broken run.

    Attributes
    ----------
    kind : str
    seed : int
        Chosen among the first 40 for a small run.
    title : str
        Title of the finding that names the cause.
    tab : str
        Title of the tab that shows it.
    shows : callable
        Returns whether a sample, given as a line of the log and the lines of its step, shows the cause.
    """

    kind: str
    seed: int
    title: str
    tab: str
    shows: Shows


def _numbers(values: list[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values], float)


def _is_repeated(line: Line, step: list[Line]) -> bool:
    """Return whether another rank logged the same response."""
    return any(line["response"] == one["response"] and line["rank"] != one["rank"] for one in step)


def _is_reversed(line: Line, step: list[Line]) -> bool:
    """Return whether a higher reward has a lower advantage in the sample's group."""
    group = [one for one in step if one["group"] == line["group"]]
    return bool(np.cov([one["reward"] for one in group], [one["advantage"] for one in group])[0, 1] < 0)


def _is_below_median(line: Line, step: list[Line]) -> bool:
    return bool(line["reward"] <= np.median([one["reward"] for one in step]))


def _is_truncated(line: Line, _: list[Line]) -> bool:
    return line.get("finish_reason") == "length" or bool(line.get("truncated"))


def _has_wrong_values(line: Line, _: list[Line]) -> bool:
    """Return whether the critic's last value is far from the reward that follows it."""
    return bool(abs(line["values"][-1] - line["reward"]) > 0.5)


def _has_invalid_text(line: Line, _: list[Line]) -> bool:
    return "\ufffd" in line["response"]


def _is_empty(line: Line, _: list[Line]) -> bool:
    return not line["response"]


def _has_no_reward(line: Line, _: list[Line]) -> bool:
    return bool(np.isnan(_numbers([line.get("reward")])).any())


def _has_no_logprob(line: Line, _: list[Line]) -> bool:
    return not np.isfinite(_numbers(line["logprobs"])).all()


def _has_spike(line: Line, _: list[Line]) -> bool:
    """Return whether policy and reference differ by more than three nats at a token."""
    return bool(np.abs(_numbers(line["logprobs"]) - _numbers(line["ref_logprobs"])).max() > 3)


CASES = [
    Case("invalid_text_in_category", 29, "Invalid UTF-8", "Tokens", _has_invalid_text),
    Case("rank_repeats", 16, "Rank repeats another rank", "Tokens", _is_repeated),
    Case("truncation_jump", 28, "Truncated responses", "Tokens", _is_truncated),
    Case("kl_spike", 13, "KL spike", "Tokens", _has_spike),
    Case("advantage_sign", 14, "Advantages against rewards", "Group", _is_reversed),
    Case("empty_responses_on_rank", 2, "Empty responses", "Tokens", _is_empty),
    Case("critic_useless", 25, "Critic worse than a constant", "Tokens", _has_wrong_values),
    Case("rewards_missing", 12, "Missing rewards", "Tokens", _has_no_reward),
    Case("nan_logprobs", 9, "NaN or Inf in the log", "Tokens", _has_no_logprob),
    Case("reward_cliff", 17, "Sustained change", "Tokens", _is_below_median),
]


@pytest.fixture(scope="module", autouse=True)
def truths(root: Path) -> dict[str, tuple[Truth, list[int]]]:
    """Write the ten runs; return what is wrong with each, and its steps."""
    told = {}
    for case in CASES:
        table, truth = broken_run(case.kind, case.seed)
        RunFiles(table, root / case.kind).write()
        told[case.kind] = truth, list(table.setup.steps)
    return told


def line_of(run: Path, uid: str) -> tuple[Line, list[Line]]:
    """Return the line of the log that a uid names, and all lines of its step."""
    name, _, offset = uid.rpartition(":")
    line = json.loads((run / name).read_bytes()[int(offset) :].partition(b"\n")[0])
    lines = [json.loads(text) for path in run.glob("*.jsonl") for text in path.read_bytes().splitlines()]
    return line, [each for each in lines if each["step"] == line["step"]]


def clicks_to(board: BoardPage, title: str) -> int:
    """Open the finding with this title by mouse; return the number of clicks."""
    board.press("Escape")  # a failed test may have left the list open
    board.page.locator(".rl-findings summary.pill").click()
    item = board.page.locator(".rl-findings .finding").filter(
        has=board.page.locator(".title").get_by_text(title, exact=True)
    )
    item.first.wait_for(state="attached")
    earlier = not item.first.is_visible()
    if earlier:
        board.page.locator(".rl-findings .earlier > summary").click()
    item.first.locator(".sentence").first.click()
    return 3 if earlier else 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_three_clicks_lead_to_a_sample_that_shows_the_cause(
    board: BoardPage, root: Path, truths: dict[str, tuple[Truth, list[int]]], case: Case
) -> None:
    truth, steps = truths[case.kind]
    board.go(run=case.kind, theme="dark")
    expect(board.badge).to_contain_text(case.kind)
    board.at_step(steps[-1])
    expect(board.page.locator(".rl-runs [aria-selected=true]")).to_be_in_viewport(ratio=0.9)
    expect(board.page.locator(".rl-findings .count").first).to_be_visible()
    assert clicks_to(board, case.title) <= 3
    expect(board.page.locator(".rl-opened-finding")).to_contain_text(f"Finding: {case.title}")
    step = int(parse_qs(urlsplit(board.page.url).query)["step"][0])
    assert abs(steps.index(step) - steps.index(truth.onset)) <= NEAR
    expect(board.step_label.locator("b")).to_have_text(f"Step {step}")
    expect(board.sample_head).to_contain_text(f"step {step} ·")
    expect(board.page.get_by_role("tab", name=case.tab, selected=True)).to_be_visible()
    board.until(lambda: case.shows(*line_of(root / case.kind, board.uid())), "the sample shows the cause")
    if os.environ.get("RLPANEL_SHOTS"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        board.page.mouse.move(5, 500)
        board.page.screenshot(path=IMAGES / f"{case.kind}.png")
