"""Many fields in one component: plain HTML in groups that fold, for settings."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.component import Component


class Form(Component):
    """Groups of fields, drawn by ``form.js``. A change by the user sends ``[name, value]``.

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
    """

    groups = param.List(default=[], doc="Groups of fields as plain dicts.")
    facts = param.Dict(default={}, doc="Name of a fact → its value and its help.")

    _esm = read_assets("panels/ui/dom.js", "panels/inputs/form.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/inputs/form.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0, **params)
