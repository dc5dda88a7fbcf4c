"""Invalid links: nothing outside the root is opened, no code is run, and the board keeps working."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rlpanel.app.board.board import Board, BrowserWindow
from rlpanel.board_url import KEYS, MAX_QUERY
from tests.factories import write_run
from tests.page_parts import send
from tests.waiting import wait_until

#: Audit events of opened and listed files during a test; else None, since an audit hook cannot be removed.
_opened: list[str] | None = None


def _record_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event in ("open", "os.scandir", "os.listdir", "exec", "compile", "os.system"):
        _opened.append(f"{event} {arguments[0]}")


sys.addaudithook(_record_event)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    global _opened
    _opened = []
    yield _opened
    _opened = None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs below a root, links that lead out of it and round in it, and a run beside it."""
    folder = tmp_path_factory.mktemp("links")
    write_run(folder / "outside" / "secret", steps=1, samples=2)
    root = folder / "root"
    write_run(root / "run", steps=[3, 5], samples=2)
    write_run(root / "other", steps=1, samples=2)
    (root / "out").symlink_to(folder / "outside")
    (root / "run" / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    return root


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[Board]:
    made = Board(root)
    # The first watch of a folder compiles annotations in some versions of watchdog.
    made.read_url("?run=run")
    wait_until(lambda: made.context.index is not None and made.context.index.snapshot.samples == 4)
    yield made
    made.close()


@pytest.fixture(scope="module")
def window(board: Board) -> BrowserWindow:
    made = BrowserWindow(on_key=lambda key: None)
    board.bind_window(made)
    send(made, "")  # Bokeh compiles the signature of what listens to the window's document
    return made


LINKS = {
    "parent": "..",
    "parent, further": "run/../../outside/secret",
    "link out": "out/secret",
    "link up and out": "run/up/../outside/secret",
    "link to itself": "loop/loop",
    "absolute": "/etc",
    "absolute, of a run": "{outside}/secret",
    "home": "~/",
    "drive": "C:\\secret",
    "backslashes": "..\\outside\\secret",
    "encoded twice": quote("../outside/secret", safe=""),
    "address": "file:///etc/passwd",
    "NUL": "run\0",
    "NUL alone": "\0",
    "long": "x" * 5000,
    "many folders": "run/" * 1500,
    "too long": "x" * (MAX_QUERY + 1),
    "long number": "9" * 5000,
    "number that no column holds": "9" * 30,
    "negative": "-9223372036854775809",
    "infinite": "inf",
    "not a number": "nan",
    "half an emoji": "\ud83d",
    "no UTF-8": "%FF%FE",
    "Python": "__import__('os').system('true')",
    "format": "{0.__class__.__mro__}",
    "a file": "run/rollout_data_rank_0.jsonl",
    "a file outside": "../../outside/secret/rollout_data_rank_0.jsonl:0",
    "a sample of another run": "rollout_data_rank_9.jsonl:0",
    "a place in no line": "rollout_data_rank_0.jsonl:-1",
    "a place beyond all": "rollout_data_rank_0.jsonl:99999999999999999999999",
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_opens_nothing_outside(
    board: Board, window: BrowserWindow, root: Path, opened: list[str], kind: str
) -> None:
    """The value stands in the key of the run, then in the other keys, many in one link."""
    assert_opens_nothing_outside(board, window, root, opened, ["run"], kind)
    others = [key for key in KEYS if key != "run"]
    each = len(text_of(kind, root.parent / "outside")) + max(map(len, others)) + 2
    many = max(1, min(len(others), (MAX_QUERY - len("run=run")) // each))
    if many > 1:
        for start in range(0, len(others), many):
            assert_opens_nothing_outside(board, window, root, opened, others[start : start + many], kind)
    else:
        for key in ("page", "step", "uid", "search"):
            assert_opens_nothing_outside(board, window, root, opened, [key], kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINKS)
def test_a_single_key_opens_nothing_outside(
    board: Board, window: BrowserWindow, root: Path, opened: list[str], kind: str
) -> None:
    for key in KEYS:
        assert_opens_nothing_outside(board, window, root, opened, [key], kind)


def text_of(kind: str, outside: Path) -> str:
    """Return a value as it stands in an address."""
    value = LINKS[kind].replace("{outside}", str(outside))
    return value if kind == "no UTF-8" else quote(value.encode("utf-8", "surrogatepass"))


def assert_opens_nothing_outside(
    board: Board, window: BrowserWindow, root: Path, opened: list[str], keys: list[str], kind: str
) -> None:
    outside = root.parent / "outside"
    text, key = text_of(kind, outside), ", ".join(keys)
    context = board.context
    send(window, {"navigated": "?run=run&step=3"})
    wait_until(lambda: context.index is not None and context.index.snapshot.samples == 4)
    query = "&".join(f"{each}={text}" for each in keys)
    send(window, {"navigated": f"?{query}" if keys == ["run"] else f"?run=run&{query}"})
    assert context.index is not None
    assert context.index.path in {root / "run", root / "other"}, key
    board.apply_changes({context.index})
    assert context.selection.run in {"run", "other"}, key
    assert context.sample is None or context.sample.uid.startswith("rollout_data_rank_0.jsonl:"), key
    beyond = (str(outside), str(root / "out"), "/etc", "os.system", "exec", "compile")
    assert not [what for what in opened if any(place in what for place in beyond)], key


@pytest.mark.parametrize("message", [{}, {"navigated": 3}, {"navigated": None}, [], None, 7])
def test_a_message_that_is_no_query_is_ignored(board: Board, window: BrowserWindow, message: object) -> None:
    before = window.query
    send(window, message)
    assert window.query == before


def test_back_is_followed_also_right_after_a_change(root: Path) -> None:
    board, window = Board(root), BrowserWindow(on_key=lambda key: None)
    board.bind_window(window)
    try:
        for query in ("?run=run&search=a", "?run=run&search=b", "?run=run&search=a"):
            send(window, {"navigated": query})
            assert board.context.selection.search == query[-1]
            assert window.query == query
    finally:
        board.close()


def test_no_view_draws_the_new_step_of_the_old_run(root: Path) -> None:
    board, window = Board(root), BrowserWindow(on_key=lambda key: None)
    board.bind_window(window)
    drawn = []
    try:
        send(window, {"navigated": "?run=run&step=3"})
        board.context.selection.param.watch(
            lambda event: drawn.append((board.context.index, event.new)), "step"
        )
        send(window, {"navigated": "?step=1&run=other"})
        assert [(index.path.name, step) for index, step in drawn if index is not None] == [("other", 1)]
    finally:
        board.close()


def test_back_to_a_step_that_is_gone_shows_the_nearest_and_says_so(
    board: Board, window: BrowserWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(window, {"navigated": "?run=run&step=3"})
    said: list[str] = []
    monkeypatch.setattr("rlpanel.app.board.board.notify", said.append)
    send(window, {"navigated": "?run=run&step=140&metric=kl_k3"})
    assert said == ["step 140 is not in this run; step 5 is the nearest"]
    assert (board.context.selection.step, window.query) == (5, "?run=run&step=5&metric=kl_k3")
