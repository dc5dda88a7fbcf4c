"""Many fields in one component: plain HTML in groups that fold, for settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class Form(Component):
    """Groups of fields, drawn by ``form.js``.

    A group is a dict with ``title`` and ``fields``. A field is a dict with ``name``, ``label``, ``kind``,
    ``value`` and ``help``, and depending on its kind:

    ``select``
        ``options``: pairs of value and label.
    ``choices``
        ``options`` as above, and ``most``: how many may be chosen. The value is a list.
    ``range``, ``integer``
        ``low``, ``high`` and ``step``.
    ``switch``, ``text``
        Nothing more.
    ``fact``
        Nothing more; it cannot be changed. Its value and help are in ``facts``, because they may change at
        each step of a run: a new value of ``groups`` sends and draws all fields.

    Parameters
    ----------
    change : callable
        Called with the name of a field and its new value, both as the browser sent them: it must check them.
    **params
        Parameters of the component, such as ``css_classes``.
    """

    groups = param.List(default=[], doc="Groups of fields as plain dicts.")
    facts = param.Dict(default={}, doc="Name of a fact → its value and its help.")
    answered = param.Integer(
        default=0, doc="Number of the browser's change that `groups` takes into account."
    )

    LARGE = frozenset({"groups"})
    _esm = read_assets("panels/ui/dom.js", "panels/inputs/form.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/inputs/form.css")]

    def __init__(self, change: Callable[[str, Any], None], **params: Any) -> None:
        super().__init__(**params)
        self._change = change

    def receive(self, message: Any) -> None:
        """Take a change ``[name, value, number]``. It is answered also if its value is refused."""
        if not (isinstance(message, list) and len(message) == 3):
            return
        name, value, number = message
        if not (isinstance(name, str) and type(number) is int and 0 <= number < 2**31):
            return
        try:
            self._change(name, value)
        finally:
            self.answered = number
