"""Elements that are drawn from a table of samples, and drawn again from the samples that a viewer selects.

`holoviews.link_selections` filters the table behind each element and calls the operation that made it. So a
box in one plot shows the means, counts and points of the same samples in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
import param
from holoviews.core.operation import Operation
from holoviews.operation.element import chain

from rlpanel.store.snapshot.run_view import RunView

#: Maximum numbers of values of a table with all columns; a larger one has only the columns of its plot.
LINKED_VALUES = 20_000_000

Draw = Callable[[pd.DataFrame], Any]


class Redraw(Operation):
    """Draws an element from the samples that are left after a selection."""

    draw = param.Callable(doc="Returns the element from a data frame of samples.")

    def _process(self, element: Any, key: Any = None) -> Any:
        return self.p.draw(element.data)


def sample_table(view: RunView, rows: np.ndarray, columns: Sequence[str]) -> hv.Dataset:
    """Return the samples as a dataset: ``step``, ``rank`` and number columns.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
    columns : sequence of str
        Columns of the plot. Up to `LINKED_VALUES` values, all other number columns are added, so that a
        selection in a plot of other columns can be shown here.
    """
    snapshot = view.snapshot
    stored = [name for name in snapshot.numbers if snapshot.has_number(name)]
    names = dict.fromkeys(columns)
    if len(rows) * len(stored) <= LINKED_VALUES:
        names |= dict.fromkeys(stored)
    data = {name: np.asarray(view.values(name, rows), float) for name in names if name != "step"}
    place = {name: snapshot.metadata(name)[rows].astype(float) for name in ("step", "rank")}
    return hv.Dataset(pd.DataFrame(place | data), ["step"], ["rank", *data])


def linked(table: hv.Dataset, draw: Draw) -> Any:
    """Return the element that ``draw`` makes of the table; a selection makes it again of fewer samples.

    A selection hides a sample by removing its row, or by replacing its numbers with NaN.
    """
    element = draw(table.data)
    # HoloViews has no public way to tell an element that was drawn elsewhere where it comes from; hvPlot
    # sets the same attributes.
    element._dataset = table
    element._pipeline = chain.instance(operations=[Redraw.instance(draw=draw)])
    return element
