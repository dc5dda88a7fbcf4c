"""Remembers the default values of Bokeh's properties, for each class of models.

To create, visit and serialise a model, Bokeh asks for the default of each of its properties: a hundred for a
figure. Each time it collects the defaults of all base classes, and validates the value again. It also looks
for values of a theme as an attribute that most models lack, which Python searches for long. Together that was
four tenths of the processor time of opening a page. A default of an immutable type never changes, and an
empty list or dict is valid again, so both are computed once here. A model is not created as a default if
another one is given. Values that a theme sets, and all other defaults, are left to Bokeh.

Upstream: https://github.com/bokeh/bokeh/pull/13174 did a part of this; docs/upstream/bokeh-defaults.md
Needed by: Bokeh 3.9 to 3.10
Delete when: `python -m tests.bench.opening` is not slower without `remember_defaults`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from bokeh.core.has_props import HasProps
from bokeh.core.property.bases import Property
from bokeh.core.property.descriptors import PropertyDescriptor
from bokeh.core.property.instance import InstanceDefault
from bokeh.core.property.wrappers import PropertyValueDict, PropertyValueList, PropertyValueSet
from bokeh.model import Model, util

#: Types of the values that are remembered; they are immutable, and equal values cannot be told apart.
PLAIN: tuple[type, ...] = (str, int, float, bool, type(None))
#: Containers that Bokeh wraps; if the default is an empty one, each model gets a new one.
CONTAINERS: dict[type, type] = {PropertyValueDict: dict, PropertyValueList: list, PropertyValueSet: set}

#: Class of models and name of a property → its value. Bokeh itself keeps all classes of models for ever.
_Known = dict[tuple[type[HasProps], str], Any]
_MISSING = object()


def remember_defaults() -> None:
    """Let Bokeh compute each plain default once in this process; a second call does nothing."""
    if not hasattr(Property.themed_default, "__wrapped__"):
        plain: _Known = {}
        Property.themed_default = _plain_once(Property.themed_default, plain)  # type: ignore[method-assign]
        PropertyDescriptor.has_unstable_default = (  # type: ignore[method-assign]
            _once(PropertyDescriptor.has_unstable_default)
        )
        PropertyDescriptor._get = _known_first(PropertyDescriptor._get, plain)  # type: ignore[method-assign]
        PropertyDescriptor.__set__ = _without_default(PropertyDescriptor.__set__)  # type: ignore[method-assign]
        HasProps.themed_values = _themed_values  # type: ignore[method-assign,assignment]
        util.visit_immediate_value_references = _without_plain(util.visit_immediate_value_references, plain)


def _themed_values(model: HasProps) -> dict[str, Any] | None:
    """Return what a theme sets for a model; None without any. Bokeh keeps it as an attribute of the model."""
    values: dict[str, Any] | None = model.__dict__.get("__themed_values__")
    return values


def _plain_once(compute: Callable[..., Any], plain: _Known) -> Callable[..., Any]:
    """Wrap ``Property.themed_default``: plain values, and which are empty, are computed once for a class."""
    empty: _Known = {}

    @wraps(compute)
    def themed_default(
        prop: Any, cls: type[HasProps], name: str, theme_overrides: dict[str, Any] | None, **options: Any
    ) -> Any:
        if theme_overrides is not None and name in theme_overrides:
            return compute(prop, cls, name, theme_overrides, **options)
        key = cls, name
        if key in plain:
            return plain[key]
        if key in empty:
            return prop.wrap(empty[key]())
        value = compute(prop, cls, name, None, **options)
        if type(value) in PLAIN and not callable(_default_of(prop, cls, name)):
            plain[key] = value
        elif type(value) in CONTAINERS and not value and not callable(_default_of(prop, cls, name)):
            empty[key] = CONTAINERS[type(value)]
        return value

    return themed_default


def _default_of(prop: Any, cls: type[HasProps], name: str) -> Any:
    """Return the default as it was declared. If it is a function, each call may return another value."""
    return cls._overridden_defaults().get(name, prop._default)


def _known_first(compute: Callable[..., Any], plain: _Known) -> Callable[..., Any]:
    """Wrap ``PropertyDescriptor._get``: a remembered default is found without any other call."""

    @wraps(compute)
    def _get(descriptor: Any, model: HasProps) -> Any:
        state = model.__dict__
        if not state.get("__themed_values__"):
            for values in (state.get("_property_values", ()), state.get("_unstable_default_values", ())):
                if descriptor.name in values:
                    return values[descriptor.name]
            value = plain.get((type(model), descriptor.name), _MISSING)
            if value is not _MISSING:
                return value
        return compute(descriptor, model)

    return _get


def _without_plain(visit: Callable[..., None], plain: _Known) -> Callable[..., None]:
    """Wrap the function that visits a model's references: a remembered default refers to no model.

    Bokeh visits all models of a page for each message with new models, and some twenty properties of each.
    """
    names: dict[type[HasProps], tuple[list[str], list[str]]] = {}

    @wraps(visit)
    def visit_immediate_value_references(value: Any, visitor: Callable[[Model], None]) -> None:
        cls = type(value)
        if cls not in names:
            visit(value, visitor)
            if isinstance(value, Model):  # the defaults that it uses are known by now
                every = sorted(cls.properties_with_refs())
                names[cls] = (
                    [name for name in every if (cls, name) not in plain],
                    [name for name in every if (cls, name) in plain],
                )
            return
        others, usually_plain = names[cls]
        given = value._property_values
        themed = value.themed_values() or ()
        changed = [name for name in usually_plain if name in given or name in themed]
        for name in (*others, *changed):
            child = getattr(value, name)
            if isinstance(child, Model):
                visitor(child)
            elif type(child) not in PLAIN and not (type(child) in CONTAINERS and not child):
                util.visit_value_and_its_immediate_references(child, visitor)

    return visit_immediate_value_references


def _without_default(assign: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``PropertyDescriptor.__set__``: a new model gets a part without creating the default part first.

    Bokeh reads the old value, to tell whether the new one differs: a default that is a model is created for
    that, with all of its own defaults, and dropped.
    """
    known: _Known = {}

    @wraps(assign)
    def __set__(descriptor: Any, model: HasProps, value: Any, *, setter: Any = None) -> None:
        if (value is None or isinstance(value, Model)) and "_initialized" not in model.__dict__:
            key = type(model), descriptor.name
            if key not in known:
                known[key] = isinstance(_default_of(descriptor.property, *key), InstanceDefault)
            if known[key]:
                value = descriptor.property.prepare_value(model, descriptor.name, value)
                descriptor._set_value(model, value)
                return
        assign(descriptor, model, value, setter=setter)

    return __set__


def _once(compute: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap ``PropertyDescriptor.has_unstable_default``, whose result depends on the class only."""
    known: _Known = {}

    @wraps(compute)
    def has_unstable_default(descriptor: Any, obj: HasProps) -> bool:
        key = type(obj), descriptor.name
        if key not in known:
            known[key] = compute(descriptor, obj)
        return bool(known[key])

    return has_unstable_default
