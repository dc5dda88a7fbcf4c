"""A snapshot and a selection become something to see; in a notebook each view alone: ``views.curves(run)``.

The functions stand in `rlpanel.views.alone` and are loaded when one is asked for. Some are called as the
module that holds their view's class; here the name means the function, and the module is imported by its
path (``from rlpanel.views.curves import Curves``).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlpanel.views.alone import curves, distribution, findings, gap, grid, groups, numbers, tokens

__all__ = ["curves", "distribution", "findings", "gap", "grid", "groups", "numbers", "tokens"]


class _Views(ModuleType):
    """The package; importing a module of a view's name does not take the view's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """Import what shows views alone when one is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("rlpanel.views.alone"), name)


sys.modules[__name__].__class__ = _Views
