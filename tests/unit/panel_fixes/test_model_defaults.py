"""Remembered defaults are those that Bokeh computes, for every property of every model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from bokeh.core.has_props import HasProps
from bokeh.core.properties import Any as AnyValue
from bokeh.core.properties import Instance, Int, List, Nullable, Override, String
from bokeh.core.property.bases import Property
from bokeh.core.property.descriptors import PropertyDescriptor
from bokeh.core.property.instance import InstanceDefault
from bokeh.core.serialization import Serializer
from bokeh.document import Document
from bokeh.model import Model, util
from bokeh.models import ColumnDataSource, GlyphRenderer, Line, LinearAxis
from bokeh.models.widgets import DataTable, TableColumn
from bokeh.plotting import figure
from bokeh.themes import Theme

from rlpanel.panel_fixes.model_defaults import CONTAINERS, PLAIN, remember_defaults

#: Class or module, and name, of each function of Bokeh that is replaced.
_REPLACED: list[tuple[Any, str]] = [
    (Property, "themed_default"),
    (PropertyDescriptor, "has_unstable_default"),
    (PropertyDescriptor, "_get"),
    (PropertyDescriptor, "__set__"),
    (util, "visit_immediate_value_references"),
    (HasProps, "themed_values"),
]
_bokehs_themed_values = HasProps.themed_values


class Named(HasProps):
    """A class with a plain default, a list, and a default that a function makes."""

    label = String("plain")
    parts = List(Int, default=[1, 2])
    turn = AnyValue(default=count().__next__)


class Renamed(Named):
    """A class that overrides a default."""

    label = Override(default="other")  # type: ignore[assignment]


class Empty(Model):
    """A model whose list is empty at first."""

    parts = List(Int)


_created = list["Part"]()


class Part(Model):
    """A model that notes when one is created."""

    def __init__(self, **properties: object) -> None:
        super().__init__(**properties)
        _created.append(self)


class Whole(Model):
    """A model that creates its part unless it is given."""

    part = Nullable(Instance(Part), default=InstanceDefault(Part))


@pytest.fixture
def bokehs_own() -> Iterator[tuple[object, object]]:
    """Let defaults be remembered during a test, as a server may have before; return Bokeh's functions."""
    own = [(owner, name, getattr(owner, name)) for owner, name in _REPLACED]
    remember_defaults()
    yield tuple(getattr(function, "__wrapped__", function) for *_, function in own[:2])  # type: ignore[misc]
    for owner, name, function in own:
        setattr(owner, name, function)


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
                if type(default) in CONTAINERS:
                    assert value == default, (cls, name)
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


def test_empty_lists_are_not_shared_and_belong_to_their_model(bokehs_own: tuple[object, object]) -> None:
    Empty(), Empty()  # the default is known by now
    first, second = Empty(), Empty()
    seen = list[list[int]]()
    first.on_change("parts", lambda _, __, new: seen.append(list(new)))
    first.parts.append(1)  # type: ignore[attr-defined]
    assert (list(first.parts), list(second.parts), seen) == ([1], [], [[1]])  # type: ignore[call-overload]


def test_a_part_that_is_given_is_not_created_as_a_default(bokehs_own: tuple[object, object]) -> None:
    given = Part()
    del _created[:]
    whole, without = Whole(part=given), Whole(part=None)
    assert (whole.part, without.part, _created) == (given, None, [])
    assert whole.to_serializable(Serializer())["attributes"]["part"]["id"] == given.id  # type: ignore[index]
    assert isinstance(Whole().part, Part)
    assert len(_created) == 1


def test_a_new_part_of_a_complete_model_is_reported(bokehs_own: tuple[object, object]) -> None:
    whole, seen = Whole(), list[tuple[object, object]]()
    whole.on_change("part", lambda _, old, new: seen.append((old, new)))
    before, after = whole.part, Part()
    whole.part = after  # type: ignore[assignment]
    assert seen == [(before, after)]


def test_parts_are_found_in_lists_and_where_most_models_have_none(bokehs_own: tuple[object, object]) -> None:
    usual = figure(tools="hover,box_zoom,reset")
    usual.line([1, 2], [3, 4])
    visit = util.visit_immediate_value_references
    names = [each.id for each in usual.references()]
    util.visit_immediate_value_references = visit.__wrapped__  # type: ignore[attr-defined]
    assert sorted(names) == sorted(each.id for each in usual.references())
    util.visit_immediate_value_references = visit
    renderers = [GlyphRenderer(data_source=ColumnDataSource(), glyph=Line()) for _ in range(2)]
    assert len(renderers[0].references()) > 3
    renderers[1].muted_glyph = Line()
    assert renderers[1].muted_glyph in renderers[1].references()


def test_a_document_is_serialised_as_by_bokeh(bokehs_own: tuple[object, object]) -> None:
    document = Document(theme=Theme(json={"attrs": {"Axis": {"axis_line_color": "red"}}}))
    plot = figure(tools="hover,box_zoom,reset")
    plot.line([1, 2], [3, 4])
    document.add_root(plot)
    document.add_root(DataTable(columns=[TableColumn(field="x")]))
    remembered = [document.to_json(), document.to_json()]
    for owner, name in _REPLACED[:-1]:
        function = getattr(owner, name)
        setattr(owner, name, getattr(function, "__wrapped__", function))
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


@pytest.mark.upstream_fault
def test_bokeh_still_computes_the_default_of_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    compute = Property.themed_default

    def counted(prop: Any, cls: type[HasProps], name: str, *args: Any, **options: Any) -> Any:
        computed.append(name)
        return compute(prop, cls, name, *args, **options)

    monkeypatch.setattr(Property, "themed_default", counted)
    for axis in (LinearAxis(), LinearAxis()):
        assert axis.axis_line_width
    assert computed.count("axis_line_width") > 1
