"""A set of samples that is compared with another one, and how many of its texts are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Maximum number of texts to read of a set, and of their characters together.
MAX_TEXTS, MAX_TEXT_CHARS = 4000, 3_000_000


@dataclass(frozen=True)
class ContrastSide:
    """One set of samples.

    Attributes
    ----------
    name : str
        Its name on screen, such as ``step 5``.
    index : RunIndex
    view : RunView
    rows : ndarray of int, shape (N,)
    """

    name: str
    index: RunIndex
    view: RunView
    rows: np.ndarray
