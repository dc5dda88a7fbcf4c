"""Names of columns, scalars and runs that have a meaning in JavaScript, Tabulator, Panel or a link.

Such a name once prevented the whole page from showing rows.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rlpanel.panels.session.context import Selection
from rlpanel.store.query.csv_text import defuse
from rlpanel.store.query.query import Order
from tests.factories import sample
from tests.integration.server_process import ServerProcess
from tests.ui.board import BoardPage

pytestmark = pytest.mark.slow

#: Names in addition to those that every object in the browser has.
FURTHER = (
    "", " ", "0", "12", "n" * 120, "a.b", '"', "'", "`", "a\nb", "<b>", "Foo", "foo", "index", "level_0",
    "length", "prototype", "then", "toJSON", "-minus", "a,b", "100%", "c_reward", "\\",
    "response length, mean (tokens)", "trainer log: loss",
)  # fmt: skip
#: A run of numbers, and a run of short texts under the same names.
NUMBERS, TEXTS = "constructor", "__proto__"
STEPS, SAMPLES = (1, 2, 3), 8


@pytest.fixture
def names(page: Page) -> list[str]:
    """All names of the test, including those of this browser's objects."""
    return [*page.evaluate("Object.getOwnPropertyNames(Object.prototype)"), *FURTHER]


def value(step: int, index: int, at: int) -> float:
    """Return the value of the ``at``-th name; all values of a step differ."""
    return step * 20 + (index * 3 + at) % SAMPLES + 0.5


@pytest.fixture
def server(tmp_path: Path, names: list[str]) -> Iterator[ServerProcess]:
    """A server for the two runs."""
    for run in (NUMBERS, TEXTS):
        folder = tmp_path / "root" / run
        folder.mkdir(parents=True)
        lines = [json.dumps(line_of(run, names, step, index)) for step in STEPS for index in range(SAMPLES)]
        (folder / "rollout_data_rank_0.jsonl").write_text("\n".join(lines) + "\n")
    scalars = [{"step": step, **dict.fromkeys(names, step * 0.25)} for step in STEPS]
    lines = [json.dumps(scalar) for scalar in scalars]
    (tmp_path / "root" / NUMBERS / "scalars.jsonl").write_text("\n".join(lines) + "\n")
    with ServerProcess(tmp_path / "root") as process:
        yield process


def line_of(run: str, names: list[str], step: int, index: int) -> dict[str, object]:
    if run == TEXTS:
        return {**sample(step, index=index, tokens=False), **{name: f"{name[:9]}{index}" for name in names}}
    numbers = {name: value(step, index, at) for at, name in enumerate(names)}
    arrays = {f"tokens {name}": [0.5, 1.5] for name in names}
    # A name that is too long to read is left out with a note.
    odd = {"n" * 300: 1.0}
    return {**sample(step, index=index), **numbers, **odd, "rewards": numbers, "arrays": arrays}


def test_a_run_of_such_names_is_looked_at_as_any_other(
    page: Page, server: ServerProcess, names: list[str]
) -> None:
    board = BoardPage(page, server.url).open(run=NUMBERS, step=2, metric="__proto__").settled(2)
    expect(page.locator(".rl-fallback")).to_contain_text("__proto__ is not logged for this sample")
    shows_each_column(board, names)
    sorts_by_each_head(board, names)
    filters_under_a_head(board, names)
    takes_a_csv(board, names)
    draws_curves(board)
    offers_curves(board)
    chooses_the_other_run(board, names)
    assert [line for line in server.output if "ERROR" in line or "Traceback" in line] == []


def shows_each_column(board: BoardPage, names: list[str]) -> None:
    for at, name in enumerate(names):
        wanted = [f"{value(2, index, at):.1f}" for index in range(SAMPLES)]
        assert board.column(name) == board.column(f"rewards/{name}") == wanted, name
    title = board.header("a.b").locator(".tabulator-col-title")
    expect(title).to_have_text("a.b")
    expect(board.header("").locator(".tabulator-col-title")).to_have_text('""')


def sorts_by_each_head(board: BoardPage, names: list[str]) -> None:
    """A click sorts, and the address contains the column's name as in the log."""
    for name in names:
        board.header(name).locator(".tabulator-col-title").click()
        shown = sorted(board.column(name))
        board.until(lambda name=name, shown=shown: board.column(name) == shown, f"sorted by {name!r}")
        board.until(lambda name=name: query_of(board).get("sort") == Order(name).text)
    board.header("reward").locator(".tabulator-col-title").click()


def filters_under_a_head(board: BoardPage, names: list[str]) -> None:
    board.page.get_by_role("button", name="Filter single columns").click()
    for name in ("constructor", "__proto__", "a.b"):
        least = value(2, 0, names.index(name))
        left = sorted(text for text in board.column(name) if float(text) >= least)
        field = board.header(name).locator("input")
        field.fill(f"{least}")
        field.press("Enter")
        board.until(lambda name=name, left=left: sorted(board.column(name)) == left, f"filtered by {name!r}")
        field.fill("")
        field.press("Enter")
        expect(board.rows).to_have_count(SAMPLES)


def takes_a_csv(board: BoardPage, names: list[str]) -> None:
    with board.page.expect_download() as taken:
        board.page.locator(".rl-query summary").get_by_text("Export").click()
        board.page.locator(".rl-query .list").get_by_role("button", name="CSV", exact=True).click()
    heads, *rows = csv.reader(io.StringIO(Path(taken.value.path()).read_text("utf-8"), newline=""))
    for at, name in enumerate(names):
        wanted = sorted(value(2, index, at) for index in range(SAMPLES))
        assert sorted(float(row[heads.index(defuse(name))]) for row in rows) == wanted, name


def draws_curves(board: BoardPage) -> None:
    """Draw names of columns, of entries of ``rewards`` and of a trainer's scalars; each card takes time."""
    some = ("constructor", "__proto__", "hasOwnProperty", "", "a,b", "100%", "a.b", "Foo", "foo")
    wanted = {
        prefix + name: [step * 20 + 4.0 for step in STEPS] for prefix in ("", "rewards/") for name in some
    }
    wanted |= {f"log:{name}": [step * 0.25 for step in STEPS] for name in some}
    curves = list(wanted)
    for first in range(0, len(curves), len(some)):
        part = curves[first : first + len(some)]
        board.page.evaluate(GO, Selection(run=NUMBERS, step=2, follow=False, curves=part).query)
        expect(board.page.locator(".rl-curve")).to_have_count(len(part))
        for curve in part:
            found = board.until(lambda curve=curve: board.source(curve), f"the points of {curve!r}")
            assert found["y"].tolist() == wanted[curve], curve


def offers_curves(board: BoardPage) -> None:
    """A click in the menu of curves draws the curve of a name."""
    board.page.evaluate(GO, Selection(run=NUMBERS, step=2, follow=False).query)
    expect(board.page.locator(".rl-curve")).to_have_count(5)
    metrics = board.settings().get_by_role("group", name="Metrics")
    labels = ["constructor", "rewards/__proto__", '""', "foo", "trainer log: loss", "trainer log: Foo"]
    for count, label in enumerate(labels, start=1):
        metrics.get_by_label(label, exact=True).check()
        expect(board.page.locator(".rl-curve")).to_have_count(count)
    drawn = ["constructor", "rewards/__proto__", "", "foo", "trainer log: loss", "log:Foo"]
    expect(board.page.locator(".rl-curve")).to_have_count(len(drawn))
    for curve in drawn:
        board.until(lambda curve=curve: board.source(curve), f"the points of {curve!r}")
    expect(board.curve("Constructor")).to_have_count(1)


def chooses_the_other_run(board: BoardPage, names: list[str]) -> None:
    board.page.locator(".rl-runs").get_by_role("treeitem", name=TEXTS).click()
    board.until(lambda: query_of(board).get("run") == TEXTS)
    for name in names:
        board.until(lambda name=name: board.column(name) == [f"{name[:9]}{at}" for at in range(SAMPLES)])


def query_of(board: BoardPage) -> dict[str, str]:
    """Return the keys of the page's address."""
    return board.page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")


GO = """(query) => {
    history.pushState({}, "", location.pathname + query)
    window.dispatchEvent(new PopStateEvent("popstate"))
}"""
