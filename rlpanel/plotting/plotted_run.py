"""Protocol of the runs that plots accept; `rlpanel.api.run.Run` implements it."""

from __future__ import annotations

from typing import Protocol

import pandas as pd

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView


class PlottedRun(Protocol):
    """The part of a `Run` that plots need."""

    @property
    def name(self) -> str:
        """Name of the run."""

    @property
    def index(self) -> RunIndex:
        """The index from which the run is read."""

    @property
    def view(self) -> RunView:
        """The newest snapshot with what is computed from it."""

    def groups(self, step: int | None = None) -> pd.DataFrame:
        """Return one row per group and step."""

    def tokens(self, uid: str) -> pd.DataFrame:
        """Return one row per token of a sample."""


def check_column(view: RunView, column: str) -> None:
    """Raise SettingError if the run has no number column of this name with a finite value."""
    known = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    if ALIASES.get(column, column) not in known:
        raise SettingError(
            f"no numbers {column!r} in {view.snapshot.name}; available: {', '.join(known) or 'none'}"
        )
