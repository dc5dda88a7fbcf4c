"""A region: one JSON text per part, and messages and values in both directions."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import param
import pytest

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui.region import Html, Region, region_script
from tests.page_parts import part_of, send

SCRIPT = "export function render() { return document.createElement('span') }"


class Search(Component):
    text = param.String(default="")
    count = param.Integer(default=0)
    kept = param.Integer(default=0, precedence=-1)
    found = param.List(default=[1])

    SET_IN_BROWSER = frozenset({"text"})
    LARGE = frozenset({"found"})
    _esm = SCRIPT
    _stylesheets: ClassVar[list[str]] = ["b { color: red }"]


class Bar(Region):
    head = param.String()
    search = param.String()
    search_found = param.String()

    _esm = region_script(head=Html, search=Search)


@pytest.fixture
def bar() -> Bar:
    return Bar({"head": Html(html="<b>x</b>", css_classes=["rl-head"]), "search": Search(count=3)})


def test_a_text_holds_the_values_of_its_part(bar: Bar) -> None:
    values = json.loads(bar.head)["values"]
    assert (values["html"], values["css_classes"], values["visible"]) == ("<b>x</b>", ["rl-head"], True)
    assert json.loads(bar.search)["values"] == {"text": "", "count": 3, "css_classes": [], "visible": True}


def test_a_change_of_a_part_writes_its_text_only(bar: Bar) -> None:
    changed: list[str] = []
    bar.param.watch(lambda event: changed.append(event.name), ["head", "search", "search_found"])
    part_of(bar, Search).count = 4
    part_of(bar, Search).kept = 1
    assert (changed, json.loads(bar.search)["values"]["count"]) == (["search"], 4)


def test_a_large_value_has_a_text_of_its_own(bar: Bar) -> None:
    changed: list[str] = []
    bar.param.watch(lambda event: changed.append(event.name), ["head", "search", "search_found"])
    assert json.loads(bar.search_found)["values"] == {"found": [1]}
    part_of(bar, Search).found = [2]
    assert (changed, json.loads(bar.search_found)["values"]) == (["search_found"], {"found": [2]})


def test_messages_reach_the_part_and_its_script(bar: Bar) -> None:
    search, got = part_of(bar, Search), list[Any]()
    search.on_message(got.append)
    search.on_message(lambda message: search.send(message * 2))
    assert (send(search, "a"), got) == (["aa"], ["a"])


def test_the_browser_sets_the_values_that_the_part_allows(bar: Bar) -> None:
    search = part_of(bar, Search)
    for name, value in (("text", "find"), ("count", 9), ("text", 5), ("name", "other")):
        send(bar, {"part": "search", "name": name, "value": value, "sent": 1})
    assert (search.text, search.count) == ("find", 3)
    assert json.loads(bar.search)["answered"] == 1


@pytest.mark.parametrize(
    "message", [None, "x", [], {}, {"part": "other"}, {"part": ["head"]}, {"part": "head"}]
)
def test_anything_else_of_the_browser_is_ignored(bar: Bar, message: Any) -> None:
    assert send(bar, message) == []


def test_a_part_may_be_left_out() -> None:
    assert Bar({"head": Html()}).search == ""


def test_a_script_holds_the_scripts_and_sheets_of_all_parts() -> None:
    script = region_script(head=Html, search=Search)
    assert script.count("export function render") == 1
    assert '"b { color: red }"' in script


def test_parts_with_the_same_script_share_it() -> None:
    script = region_script(first=Search, second=Search)
    assert script.count("createElement('span')") == 1
