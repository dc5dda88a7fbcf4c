"""A spare page of one address that is given to a visitor of another shows what a new page would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel.runtime import Runtime
from rlpanel.settings import Limits, SparePageLimits
from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard, Profile

#: What all plots on the page draw: the data of each source, by name.
DRAWN = """() => Bokeh.documents.flatMap((doc) => [...doc.all_models])
    .filter((model) => model.type === "Figure" && Bokeh.index.find_one(model))
    .map((figure) => figure.renderers.filter((each) => each.visible !== false && each.data_source)
        .map(({ data_source }) => [data_source.name, Object.entries(data_source.data)
            .map(([name, values]) => [name, [...values].map(String)])]))"""
#: Addresses of a spare page and of its visitor.
ADDRESSES = [
    ("run=grpo", "run=ppo"),
    ("run=ppo&step=12&filter=reward > 0&sort=-reward&search=a&curves=reward&log=reward", "run=grpo"),
    ("run=grpo&over=ppo&smooth=0.5&align=samples&theme=light&metric=surprisal", "run=grpo&step=20"),
    ("run=grpo", "run=grpo&step=9&scope=run&filter=reward > 0.5&sort=-reward&search=春&curves=reward"),
    ("run=grpo&step=3", "run=plain"),
    ("run=plain", ""),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path, ppo_run: Path) -> None:
    """Two recorded runs, and one without tokens."""
    shutil.copytree(grpo_run, root / "grpo")
    shutil.copytree(ppo_run, root / "ppo")
    write_run(root / "plain", steps=4, samples=6, tokens=False)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The readers of both servers are one: sums of a run that is read twice may differ in the last bit."""
    with Runtime(limits=Limits(spare_pages=SparePageLimits(quiet_seconds=0.1))) as made:
        yield made


@pytest.fixture(scope="module")
def ahead(root: Path, runtime: Runtime) -> Iterator[Served]:
    """A server that builds a spare page as soon as it is idle."""
    with Served(root, runtime=runtime, spare_pages=1) as server:
        yield server


@pytest.fixture(scope="module")
def without(root: Path, runtime: Runtime) -> Iterator[Served]:
    """A server that builds each page when it is asked for."""
    with Served(root, runtime=runtime) as server:
        yield server


def shown(board: BoardPage) -> tuple[list[str], object]:
    """All texts with their roles, without ages and rates, and what the plots draw."""
    expect(board.page.locator("#rl-first")).to_have_count(0)
    lines = re.sub(
        r"\b\d+ (s|min|h|d)\b( ago)?|[\d.]+ [kMG]B/s", "…", board.page.locator("body").aria_snapshot()
    )
    return lines.splitlines(), board.page.evaluate(DRAWN)


def are_equal(given: BoardPage, new: BoardPage) -> bool:
    (texts, plots), (expected, drawn) = shown(given), shown(new)
    assert not list(unified_diff(expected, texts, lineterm="", n=1))
    assert plots == drawn
    return True


@pytest.mark.parametrize(
    ("before", "after"),
    [ADDRESSES[0], *(pytest.param(*both, marks=pytest.mark.slow) for both in ADDRESSES[1:])],
)
def test_it_shows_what_a_new_page_would(
    profile: Profile, open_board: OpenBoard, without: Served, ahead: Served, before: str, after: str
) -> None:
    new = open_board(server=without, **query(after))
    visit(profile, ahead, **query(before))
    spare = ahead.wait_for_spare()
    given = open_board(server=ahead, **query(after))
    assert spare.connection_count == 1
    for each in (new, given):
        expect(each.rows.first).to_be_visible()
    # The newest numbers may reach the pages at different times.
    given.until(lambda: are_equal(given, new))


def test_its_visitor_is_told_what_a_link_names_in_vain(
    profile: Profile, open_board: OpenBoard, ahead: Served
) -> None:
    visit(profile, ahead, run="grpo")
    spare = ahead.wait_for_spare()
    given = open_board(server=ahead, run="gone", step="x")
    assert spare.connection_count == 1
    expect(given.page.get_by_text("no run 'gone' below", exact=False)).to_be_visible()
    expect(given.page.locator(".notyf__message", has_text="step=x in the link is not valid")).to_be_visible()
    given.settled()


def visit(profile: Profile, server: Served, **query: str) -> None:
    """Ask for a page with the browser's cookies and language, without drawing it."""
    language = {"Accept-Language": "en-US"}
    assert profile.context.request.get(server.url, params=query, headers=language).ok


def query(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split("&") if part)
