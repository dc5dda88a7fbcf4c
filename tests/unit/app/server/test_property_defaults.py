"""Remembered defaults are those that Bokeh computes, for every property of every model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from bokeh.core.has_props import HasProps
from bokeh.core.properties import Any as AnyValue
from bokeh.core.properties import Int, List, Override, String
from bokeh.core.property.bases import Property
from bokeh.core.property.descriptors import PropertyDescriptor
from bokeh.document import Document
from bokeh.model import Model
from bokeh.models import LinearAxis
from bokeh.models.widgets import DataTable, TableColumn
from bokeh.plotting import figure
from bokeh.themes import Theme

from rlpanel.app.server.property_defaults import PLAIN, remember_defaults

_bokehs_themed_values = HasProps.themed_values


class Named(HasProps):
    """A class with a plain default, a list, and a default that a function makes."""

    label = String("plain")
    parts = List(Int, default=[1, 2])
    turn = AnyValue(default=count().__next__)


class Renamed(Named):
    """A class that overrides a default."""

    label = Override(default="other")  # type: ignore[assignment]


@pytest.fixture
def bokehs_own() -> Iterator[tuple[object, object]]:
    """Let defaults be remembered during a test, as a server may have before; return Bokeh's functions."""
    own, themed = (Property.themed_default, PropertyDescriptor.has_unstable_default), HasProps.themed_values
    remember_defaults()
    yield tuple(getattr(function, "__wrapped__", function) for function in own)  # type: ignore[misc]
    Property.themed_default, PropertyDescriptor.has_unstable_default = own  # type: ignore[method-assign]
    HasProps.themed_values = themed  # type: ignore[method-assign]


def test_every_default_of_every_model_is_bokehs_own(bokehs_own: tuple[object, object]) -> None:
    own_default, own_unstable = bokehs_own
    compared = 0
    for cls in [cls for cls in Model.model_class_reverse_map.values() if issubclass(cls, Model)]:
        for name in cls.properties(_with_props=True):
            descriptor = cls.lookup(name)
            if type(descriptor).has_unstable_default is PropertyDescriptor.has_unstable_default:
                instance = cls.__new__(cls)
                expected = own_unstable(descriptor, instance)  # type: ignore[operator]
                assert [descriptor.has_unstable_default(instance) for _ in range(2)] == [expected] * 2
            default = own_default(descriptor.property, cls, name, None)  # type: ignore[operator]
            for _ in range(2):
                value = descriptor.property.themed_default(cls, name, None)
                assert type(value) is type(default), (cls, name)
                if type(default) in PLAIN:
                    assert value == default or default != default, (cls, name)
                    compared += 1
    assert compared > 1000


def test_a_subclass_keeps_its_own_default(bokehs_own: tuple[object, object]) -> None:
    assert [Named().label, Renamed().label, Named().label, Renamed().label] == ["plain", "other"] * 2


def test_a_theme_wins_over_a_remembered_default(bokehs_own: tuple[object, object]) -> None:
    axis = LinearAxis()
    before = axis.axis_line_width
    Theme(json={"attrs": {"Axis": {"axis_line_width": 7}}}).apply_to_model(axis)
    assert (axis.axis_line_width, LinearAxis().axis_line_width) == (7, before)
    assert axis.themed_values() == {"axis_line_width": 7}
    axis.unapply_theme()
    assert (axis.axis_line_width, axis.themed_values()) == (before, None)


def test_lists_are_not_shared_and_functions_are_called_again(bokehs_own: tuple[object, object]) -> None:
    first, second = Named(), Named()
    list.append(first.parts, 3)  # type: ignore[arg-type]
    assert [list(each.parts) for each in (first, second)] == [[1, 2, 3], [1, 2]]  # type: ignore[call-overload]
    assert Named().turn != Named().turn


def test_a_document_is_serialised_as_by_bokeh(bokehs_own: tuple[object, object]) -> None:
    document = Document(theme=Theme(json={"attrs": {"Axis": {"axis_line_color": "red"}}}))
    plot = figure(tools="hover,box_zoom,reset")
    plot.line([1, 2], [3, 4])
    document.add_root(plot)
    document.add_root(DataTable(columns=[TableColumn(field="x")]))
    remembered = [document.to_json(), document.to_json()]
    Property.themed_default, PropertyDescriptor.has_unstable_default = bokehs_own  # type: ignore[method-assign,assignment]
    HasProps.themed_values = _bokehs_themed_values  # type: ignore[method-assign]
    own = document.to_json()
    assert remembered == [own, own]
    assert [axis.axis_line_color for axis in plot.axis] == ["red", "red"]


@pytest.mark.usefixtures("bokehs_own")
def test_a_second_call_does_nothing() -> None:
    first = Property.themed_default
    remember_defaults()
    assert Property.themed_default is first
    assert not hasattr(first.__wrapped__, "__wrapped__")  # type: ignore[attr-defined]
