"""The tree at the top of ``rlpanel/errors.py`` shows every exception with its other base."""

from __future__ import annotations

import inspect
import re

from rlpanel import errors


def test_the_tree_shows_every_exception_and_its_other_base() -> None:
    drawn = re.findall(r"^[├└]── (\w+) +\((\w+)\) +\S", errors.__doc__ or "", re.MULTILINE)
    declared = {
        name: tuple(base.__name__ for base in kind.__bases__)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.RLPanelError) and kind is not errors.RLPanelError
    }
    below = re.findall(r"^[├└]── (\w+) .*\n│   └── (\w+) +\S", errors.__doc__ or "", re.MULTILINE)
    bases = {name: ("RLPanelError", base) for name, base in drawn} | {name: (base,) for base, name in below}
    assert bases == declared
    assert len(drawn) + len(below) == len(declared)
