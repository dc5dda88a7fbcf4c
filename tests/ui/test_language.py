"""The board's language: by the browser, by the switch, and for each visitor on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import VIEWPORT, watch_for_trouble
from tests.conversations import episode, write_agent_run
from tests.factories import write_run
from tests.ui.board import Served

pytestmark = pytest.mark.slow

Visit = Callable[..., Page]
COOKIE = "rlpanel-language"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_run(root / "run", steps=range(3), samples=8)
    timing = {"start": 1.7e9, "queue": 1.0, "generation": 3.0}
    write_agent_run(root / "timed", episode(1, timing=timing, status="timeout"))


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    """Open the board as a new visitor; errors on the page fail the test."""
    with ExitStack() as stack:
        trouble: list[str] = []

        def visit_page(locale: str, cookie: str = "", query: str = "?run=run") -> Page:
            context = browser.new_context(viewport=VIEWPORT, locale=locale)
            stack.callback(context.close)
            if cookie:
                context.add_cookies([{"name": COOKIE, "value": cookie, "url": served.url}])
            found = watch_for_trouble(context)
            stack.callback(lambda: trouble.extend(found))
            page = context.new_page()
            page.goto(f"{served.url}{query}")
            return page

        yield visit_page
    assert trouble == []


def expect_language(page: Page, language: str) -> None:
    """Expect labels of Python and of scripts, and the document's language."""
    tab, follow = {"en": ("Conversation", "Follow latest"), "zh-CN": ("对话", "跟随最新")}[language]
    expect(page.locator("[role=tab][data-key=conversation]")).to_have_text(tab)
    expect(page.get_by_text(follow, exact=True)).to_be_visible()
    expect(page.locator(f"html[lang={language}]")).to_be_attached()


def keys_find_the_fields(page: Page) -> None:
    """The keys do not depend on the labels."""
    page.keyboard.press("/")
    expect(page.locator(".rl-search input")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator(".rl-search input").blur()
    page.keyboard.press("f")
    expect(page.locator(".rl-query input").first).to_be_focused()


def test_two_browsers_at_once_have_their_languages(visit: Visit) -> None:
    chinese, english, french = visit("zh-CN"), visit("en-US"), visit("fr-FR")
    expect_language(chinese, "zh-CN")
    expect_language(english, "en")
    expect_language(french, "en")
    expect(chinese.get_by_placeholder("搜索 prompt")).to_be_visible()
    keys_find_the_fields(chinese)
    for page in (chinese, english):
        page.locator("[role=tab][data-key=explain]").dispatch_event("click")  # it may be behind "more"
    expect(chinese.get_by_text("数值为何改变")).to_be_attached()
    expect(english.get_by_text("Why a number changed")).to_be_attached()


def test_the_switch_keeps_the_address_and_outlives_a_reload(visit: Visit) -> None:
    page = visit("en-US", query="?run=run&step=1")
    expect_language(page, "en")
    address = page.url
    page.locator(".rl-language select").select_option("zh-CN")
    expect_language(page, "zh-CN")
    assert page.url == address
    page.reload()
    expect_language(page, "zh-CN")
    page.locator(".rl-language select").select_option("en")
    expect_language(page, "en")
    assert page.url == address


def test_a_hostile_choice_gives_english(visit: Visit) -> None:
    """What other choices give is tested without a browser."""
    hostile = "<img src=x onerror=alert(1)>"
    page = visit("en-US", hostile)
    expect_language(page, "en")
    assert hostile not in page.content()


def test_the_timeline_is_in_the_language_of_its_session(visit: Visit) -> None:
    for locale, tab, entries in (
        ("zh-CN", "时间线", ["排队", "生成", "失败"]),
        ("en-US", "Timeline", ["queue", "generation", "failed"]),
    ):
        page = visit(locale, query="?run=timed")
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.locator(".rl-timeline .legend span")).to_have_text(entries)
