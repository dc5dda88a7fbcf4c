"""The input of a question: a run's index, and one of its snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlpanel.schema import Sample
    from rlpanel.sources.files.file_access import AnyPath
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.snapshot.run_view import RunView
    from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class RunData:
    """The input of a question: a run's index, and one of its snapshots with what is computed from it."""

    index: RunIndex
    view: RunView

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.index.name

    @property
    def path(self) -> AnyPath:
        """The run's folder."""
        return self.index.path

    @property
    def snapshot(self) -> Snapshot:
        """The immutable snapshot."""
        return self.view.snapshot

    def sample(self, uid: str) -> Sample:
        """Return one sample with all its fields; errors as in `Run.sample`."""
        from rlpanel.store.query.fetch_sample import fetch

        return fetch(self.index, self.view, self.snapshot.row(uid))
