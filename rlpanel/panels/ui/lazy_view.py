"""A view that is made when it is first looked at: most pages never open most of their tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import panel as pn
from panel.viewable import Viewable, Viewer


class ActiveView(Protocol):
    """A view that does nothing while it is out of sight."""

    active: bool

    def __panel__(self) -> Viewable: ...


V = TypeVar("V", bound=ActiveView)


class LazyView(Viewer, Generic[V]):
    """The place of a view that is not there yet.

    Parameters
    ----------
    make : callable
        Makes the view; called once, when the place comes into sight or somebody asks for the view.
    """

    def __init__(self, make: Callable[[], V]) -> None:
        super().__init__()
        self._make = make
        self._view: V | None = None
        self._place = pn.Column(sizing_mode="stretch_both", margin=0)

    def __panel__(self) -> Viewable:
        return self._place

    @property
    def view(self) -> V:
        """The view, made if need be."""
        if self._view is None:
            self._view = self._make()
            self._place.append(self._view.__panel__())
        return self._view

    def set_active(self, active: bool) -> None:
        """Into sight, or out of it."""
        if active or self._view is not None:
            self.view.active = active
