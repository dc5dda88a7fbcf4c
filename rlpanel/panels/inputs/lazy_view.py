"""A view that is created when it is first shown: most pages never open most of their tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import panel as pn
from panel.viewable import Viewable, Viewer


class ActiveView(Protocol):
    """A view that does no work while it is not visible."""

    active: bool

    def __panel__(self) -> Viewable: ...


V = TypeVar("V", bound=ActiveView)


class LazyView(Viewer, Generic[V]):
    """A container that creates its view on demand.

    Parameters
    ----------
    make : callable
        Creates the view; called once, when the container is first shown or `view` is first read.
    """

    def __init__(self, make: Callable[[], V]) -> None:
        super().__init__()
        self._make = make
        self._view: V | None = None
        self._container = pn.Column(sizing_mode="stretch_both", margin=0)

    def __panel__(self) -> Viewable:
        return self._container

    @property
    def view(self) -> V:
        """The view; created on first access."""
        if self._view is None:
            self._view = self._make()
            self._container.append(self._view.__panel__())
        return self._view

    def set_active(self, active: bool) -> None:
        """Tell the view whether it is visible, and create it when it first is."""
        if active or self._view is not None:
            self.view.active = active
