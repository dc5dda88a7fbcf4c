"""Inputs of the board: fields, forms, bars of tabs, and views that are created when first shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import panel as pn
import param
from panel.layout import ListPanel
from panel.viewable import Viewable

from rlpanel.panel_fixes.component import Component
from rlpanel.panel_fixes.narrow_row import NarrowRow
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

# -- input fields --------------------------------------------------------------------------------------
# Fields in the style of the board: buttons, selects and text fields, all native HTML elements.


def _style() -> dict[str, Any]:
    return {"stylesheets": [read_assets("panels/inputs/input_fields.css")]}


def button(label: str, click: Callable[..., None] | None = None, **params: Any) -> pn.widgets.Button:
    """Return a small button.

    Parameters
    ----------
    label : str
    click : callable, optional
        Called with the event of each click.
    **params
        Parameters of the widget, such as ``visible`` and ``css_classes``.
    """
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    widget = pn.widgets.Button(label=label, **{**defaults, **params})
    if click is not None:
        widget.on_click(click)
    return widget


def select_field(name: str, label: str, width: int, **params: Any) -> pn.widgets.Select:
    """Return a select.

    Parameters
    ----------
    name : str
        The CSS class is ``rl-<name>``.
    label : str
        What the field chooses. Only screen readers show it.
    width : int
        Width in pixels.
    **params
        Parameters of the widget, such as ``options`` and ``visible``.
    """
    defaults: dict[str, Any] = {"options": {}, "margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.Select(label=label, width=width, css_classes=[f"rl-{name}"], **{**defaults, **params})


def text_field(name: str, label: str, placeholder: str = "", **params: Any) -> pn.widgets.TextInput:
    """Return a text field as `select_field` does; its value changes on Enter and when it loses the focus."""
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.TextInput(
        label=label, placeholder=placeholder, css_classes=[f"rl-{name}"], **{**defaults, **params}
    )


def integer_field(name: str, label: str, width: int, **params: Any) -> pn.widgets.IntInput:
    """Return a field for an integer, as `select_field` does."""
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.IntInput(label=label, width=width, css_classes=[f"rl-{name}"], **{**defaults, **params})


def slider_field(name: str, label: str, **params: Any) -> pn.widgets.FloatSlider:
    """Return a slider with its label and value above it; the CSS class is ``rl-<name>``."""
    style = [theme.CSS, read_assets("panels/inputs/slider.css")]
    return pn.widgets.FloatSlider(label=label, stylesheets=style, css_classes=[f"rl-{name}"], **params)


class FieldRow(NarrowRow):
    """A row of fields that breaks where it is too narrow."""

    def __init__(self, *fields: Any, **params: Any) -> None:
        style = read_assets("panels/inputs/field_row.css")
        super().__init__(*fields, **{"sizing_mode": "stretch_width", "stylesheets": [style], **params})


# -- form ----------------------------------------------------------------------------------------------
# Many fields in one component: plain HTML in groups that fold, for settings.


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


# -- lazy view -----------------------------------------------------------------------------------------
# A view that is created when it is first shown: most pages never open most of their tabs.


class ActiveView(Protocol):
    """A view that does no work while it is not visible."""

    active: bool

    def __panel__(self) -> Viewable: ...


V = TypeVar("V", bound=ActiveView)


class LazyView(Generic[V]):
    """A place of a layout whose view is created on demand.

    Parameters
    ----------
    make : callable
        Creates the view; called once, when it is first shown or `view` is first read.
    layout : ListPanel
        Gets the view when it is first shown.
    """

    def __init__(self, make: Callable[[], V], layout: ListPanel) -> None:
        self._make, self._layout = make, layout
        self._view: V | None = None

    @property
    def view(self) -> V:
        """The view; created on first access."""
        if self._view is None:
            self._view = self._make()
        return self._view

    def set_active(self, active: bool) -> None:
        """Show or hide the view, and create it when it is first shown.

        It is sent with what it draws first: a browser that is still building a view ignores changes of it.
        """
        if self._view is None and not active:
            return
        self.view.active = active
        shown = self.view.__panel__()
        shown.visible = active
        if active and shown not in self._layout.objects:
            self._layout.append(shown)


# -- tab bar -------------------------------------------------------------------------------------------
# A bar of tabs in one row, and the declaration of a tab.


class Tab(NamedTuple):
    """One tab of the sample panel, or one page of the run.

    Attributes
    ----------
    key : str
        Its name in the address: one of `rlpanel.board_url.TABS` or `rlpanel.board_url.PAGES`.
    title : str
        Its label on screen.
    make : callable
        Makes its view from the session's `Context` when the tab is first opened. The view has a parameter
        ``active`` and does nothing while that is False.
    applies : callable
        Returns whether a run (its `Snapshot`) logs what the tab shows; the tab is left out if not.
    of_step : bool
        Whether a page shows the selected step: the bar of steps then stays above it.
    fits : bool
        Whether a page is as high as its content: one with little in it is no large empty box.
    log : str
        Keys that a run must log so that the page applies.
    """

    key: str
    title: str
    make: Callable[[Any], ActiveView]
    applies: Callable[[Any], bool] = lambda _: True
    of_step: bool = False
    fits: bool = False
    log: str = ""


class TabBar(Component):
    """Tabs drawn by ``tab_bar.js``; a click or an arrow key sends the tab's key.

    Tabs without room in the row are in a list behind it.
    """

    tabs = param.List(default=[], doc="One JSON object per tab: key and title.")
    value = param.String(default="", doc="Key of the open tab.")
    label = param.String(default="", doc="What a screen reader calls the bar.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/closing.js", "panels/inputs/tab_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/inputs/tab_bar.css")]
