"""Components of a served page: what an update sends, and which changes go Panel's own way."""

from __future__ import annotations

from typing import Any

import param
import pytest
from bokeh.core.has_props import HasProps
from bokeh.document import Document
from panel.custom import JSComponent
from panel.io.state import set_curdoc

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


def test_an_update_looks_up_no_value_in_the_wrong_model(
    shown: tuple[Numbers, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, model = shown
    asked: list[str] = []
    monkeypatch.setattr(
        HasProps, "_raise_attribute_error_with_matches", lambda _, name, __: asked.append(name)
    )
    numbers.rows = [1]
    assert (model.data.rows, asked) == ([1], [])


def test_style_and_visibility_are_those_of_the_model(shown: tuple[Numbers, Any]) -> None:
    numbers, model = shown
    numbers.param.update(visible=False, label="x")
    assert (model.visible, model.data.label) == (False, "x")


class PanelsOwn(JSComponent):
    rows = param.List(default=[])

    _esm = SCRIPT


def test_a_value_of_the_browser_goes_the_way_of_panels_own_components(shown: tuple[Numbers, Any]) -> None:
    """From Panel 1.9.4 on it is not sent back: Bokeh has set it on the model."""
    own, document = PanelsOwn(), Document()
    own_model: Any = own.get_root(document)
    document.add_root(own_model)
    for component, model in (shown, (own, own_model)):
        with set_curdoc(model.document):
            component._process_events({"rows": [1]})
    assert shown[0].rows == own.rows == [1]
    assert shown[1].data.rows == own_model.data.rows


def test_components_with_the_same_script_share_it_in_the_browser() -> None:
    """The name of a bundle is the key of the browser's cache; without one, Panel parses each script there."""
    scripts = [type("Other", (Numbers,), {"_esm": SCRIPT + " // other"}), Numbers, Numbers]
    other, *same = [each().get_root().bundle for each in scripts]
    assert other
    assert same[0] == same[1] != other


def test_components_share_parameters_but_neither_values_nor_watchers(shown: tuple[Numbers, Any]) -> None:
    numbers, other = shown[0], Numbers(label="other")
    seen: list[str] = []
    other.param.watch(lambda event: seen.append(event.new), "label")
    numbers.label = "x"
    assert (numbers.label, other.label, Numbers().label, seen) == ("x", "other", "", [])
    assert numbers.param["rows"] is Numbers.param["rows"]


@pytest.mark.upstream_fault
def test_panels_own_component_still_looks_up_values_in_the_wrong_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, document = PanelsOwn(), Document()
    document.add_root(own.get_root(document))
    asked: list[str] = []
    monkeypatch.setattr(
        HasProps, "_raise_attribute_error_with_matches", lambda _, name, __: asked.append(name)
    )
    own.rows = [1]
    assert asked
