"""Components of a served page: what an update sends, and which changes go Panel's own way."""

from __future__ import annotations

from typing import Any

import param
import pytest
from bokeh.document import Document
from panel.custom import JSComponent

from rlpanel.panel_fixes.component import Component

SCRIPT = "export function render() { return document.createElement('span') }"


class Numbers(Component):
    rows = param.List(default=[])
    label = param.String(default="")

    _esm = SCRIPT


@pytest.fixture
def shown() -> tuple[Numbers, Any]:
    """A component and its model in a document."""
    numbers, document = Numbers(), Document()
    model = numbers.get_root(document)
    document.add_root(model)
    return numbers, model


def test_an_update_reaches_the_model(shown: tuple[Numbers, Any]) -> None:
    numbers, model = shown
    numbers.param.update(rows=[{"a": 1}], label="x")
    assert (model.data.rows, model.data.label) == ([{"a": 1}], "x")


def test_style_and_visibility_are_those_of_the_model(shown: tuple[Numbers, Any]) -> None:
    numbers, model = shown
    numbers.param.update(visible=False, label="x")
    assert (model.visible, model.data.label) == (False, "x")


def test_components_with_the_same_script_share_it_in_the_browser() -> None:
    """The name of a bundle is the key of the browser's cache; without one, Panel parses each script there."""
    scripts = [type("Other", (Numbers,), {"_esm": SCRIPT + " // other"}), Numbers, Numbers]
    other, *same = [each().get_root().bundle for each in scripts]
    assert other
    assert same[0] == same[1] != other


@pytest.mark.upstream_fault
def test_panels_own_component_still_parses_its_script_in_the_browser() -> None:
    own = type("PanelsOwn", (JSComponent,), {"_esm": SCRIPT})
    assert own().get_root().bundle is None
