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
        return self._view if self._view is not None else self._create(active=False)

    def set_active(self, active: bool) -> None:
        """Tell the view whether it is visible, and create it when it first is."""
        if self._view is not None:
            self._view.active = active
        elif active:
            self._create(active=True)

    def _create(self, *, active: bool) -> V:
        """Create the view, and send it with what it draws first.

        A browser that is still building a view ignores changes of it, or raises errors.
        """
        view = self._view = self._make()
        view.active = active
        self._container.append(view.__panel__())
        return view
