"""Root of the page: a column whose children get their Bokeh models one at a time, before it is shown.

Upstream: docs/upstream/panel-column-in-steps.md
Needed by: Panel 1.9 to 1.10
Delete when: adding a child to a shown column visits the models of that child only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.model import Model
from panel.io.state import state
from panel.layout import ListPanel
from panel.viewable import Viewable

#: Number of children of a layout in one message. A message of the whole board would occupy the event loop for
#: long; with many messages, Bokeh visits all models of the document for each.
CHILDREN_PER_MESSAGE = 3


class PageRoot(pn.Column):
    """A column for one document.

    Adding children to a column that is shown makes Panel and Bokeh visit all models of the document, for each
    child. Here all models are created first, and the document is visited once.
    """

    def __init__(self, *objects: Any, **params: Any) -> None:
        super().__init__(*objects, **params)
        self._root_model: Model | None = None

    def create_models(self, child: Viewable, document: Document) -> None:
        """Create the models of a layout or component below this column. Panes need their parent's model."""
        if self._root_model is None:
            model = self._root_model = self._bokeh_model()
            self._bokeh_model = lambda: model  # type: ignore[assignment,misc]
            # Panel updates the models of known roots only: changes until the end would be lost.
            state._views[model.ref["id"]] = (self, model, document, None)
        child._get_model(document, self._root_model)

    def add_to_document(self, document: Document, late: Sequence[ListPanel] = ()) -> list[Callable[[], None]]:
        """Create the remaining models, and return the steps that add the column to a document of a server.

        `Viewable.server_doc` would add notifications again.

        Parameters
        ----------
        document : Document
        late : sequence of ListPanel
            Layouts below this column, whose children are added later.

        Returns
        -------
        list of callable
            The first adds the column, and the others the children of ``late``.
        """
        model = self.get_root(document)
        steps = [step for layout in late for step in _children_later(layout._models[model.ref["id"]][0])]
        return [partial(self._add_root, document, model), *steps]

    def _add_root(self, document: Document, model: Model) -> None:
        if self._root_model is not None:
            del self._bokeh_model
        self._documents[document] = model
        document.on_session_destroyed(state._destroy_session)
        document.on_session_destroyed(self._server_destroy)  # type: ignore[arg-type]
        document.add_root(model)


def _children_later(layout: Any) -> list[Callable[[], None]]:
    """Remove the children of a layout's model, and return the steps that add them again."""
    children, layout.children = list(layout.children), []
    ends = [*range(CHILDREN_PER_MESSAGE, len(children), CHILDREN_PER_MESSAGE), len(children)]
    return [partial(setattr, layout, "children", children[:end]) for end in ends]
