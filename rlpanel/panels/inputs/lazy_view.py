"""A view that is created when it is first shown: most pages never open most of their tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from panel.layout import ListPanel
from panel.viewable import Viewable


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
