"""Root of the page: a column whose children get their Bokeh models one at a time, before it is shown."""

from __future__ import annotations

from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.model import Model
from panel.io.state import state
from panel.viewable import Viewable


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

    def add_to_document(self, document: Document) -> None:
        """Add the column to a document of a server; `Viewable.server_doc` would add notifications again."""
        model = self.get_root(document)
        if self._root_model is not None:
            del self._bokeh_model
        self._documents[document] = model
        document.on_session_destroyed(state._destroy_session)
        document.on_session_destroyed(self._server_destroy)  # type: ignore[arg-type]
        document.add_root(model)
