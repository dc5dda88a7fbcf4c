"""Remembers the default values of Bokeh's properties, for each class of models.

To create, visit and serialise a model, Bokeh asks for the default of each of its properties: a hundred for a
figure. Each time it collects the defaults of all base classes, and validates the value again. It also looks
for values of a theme as an attribute that most models lack, which Python searches for long. Together that was
four tenths of the processor time of opening a page. A default of an immutable type never changes, so it is
computed once here. Values that a theme sets, and all other defaults, are left to Bokeh.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from bokeh.core.has_props import HasProps
from bokeh.core.property.bases import Property
from bokeh.core.property.descriptors import PropertyDescriptor

#: Types of the values that are remembered; they are immutable, and equal values cannot be told apart.
PLAIN: tuple[type, ...] = (str, int, float, bool, type(None))

#: Class of models and name of a property → its value. Bokeh itself keeps all classes of models for ever.
_Known = dict[tuple[type[HasProps], str], Any]


def remember_defaults() -> None:
    """Let Bokeh compute each plain default once in this process; a second call does nothing."""
    if not hasattr(Property.themed_default, "__wrapped__"):
        Property.themed_default = _plain_once(Property.themed_default)  # type: ignore[method-assign]
        PropertyDescriptor.has_unstable_default = (  # type: ignore[method-assign]
            _once(PropertyDescriptor.has_unstable_default)
        )
        HasProps.themed_values = _themed_values  # type: ignore[method-assign,assignment]


def _themed_values(model: HasProps) -> dict[str, Any] | None:
    """Return what a theme sets for a model; None without any. Bokeh keeps it as an attribute of the model."""
    values: dict[str, Any] | None = model.__dict__.get("__themed_values__")
    return values


def _plain_once(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Property.themed_default``: plain values are computed once for a class."""
    known: _Known = {}

    @wraps(compute)
    def themed_default(
        prop: Any, cls: type[HasProps], name: str, theme_overrides: dict[str, Any] | None, **options: Any
    ) -> Any:
        if theme_overrides is not None and name in theme_overrides:
            return compute(prop, cls, name, theme_overrides, **options)
        key = cls, name
        if key in known:
            return known[key]
        value = compute(prop, cls, name, None, **options)
        if type(value) in PLAIN and not _is_computed(prop, cls, name):
            known[key] = value
        return value

    return themed_default


def _is_computed(prop: Any, cls: type[HasProps], name: str) -> bool:
    """Return whether a function makes the default: each call may return another value."""
    return callable(cls._overridden_defaults().get(name, prop._default))


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
