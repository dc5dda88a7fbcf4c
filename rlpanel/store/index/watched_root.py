"""Root folder whose runs are listed again and again by the reader."""

from __future__ import annotations

import logging

from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import Diagnosis, diagnose
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.files.file_access import AnyPath, connection_error, listing_error
from rlpanel.sources.files.unreadable import Unread

log = logging.getLogger(__name__)


class WatchedRoot:
    """Root folder with the list of runs below it, as of the last refresh; None before the first.

    Attributes
    ----------
    survey : Diagnosis or None
        Description of the folder's content if it holds no runs.
    failure : str
        Reason why the last refresh could not list the root; empty if it could.
    left_out : tuple of Unread
        Folders that cannot be listed, and links that are not followed, with the reason.
    """

    def __init__(self, path: AnyPath, reading: Reading | None = None) -> None:
        self.path = path
        self.directory = Directory(path, reading)
        self.runs: list[RunInfo] | None = None
        self.survey: Diagnosis | None = None
        self.failure = ""
        self.left_out: tuple[Unread, ...] = ()

    def refresh(self) -> bool:
        """List the runs again; True if runs were added, removed or changed."""
        self.failure = listing_error(self.path)
        try:
            runs = self.directory.runs()
        except OSError as error:  # such as too many open files: the runs still exist
            log.debug("%s cannot be listed now: %s", self.path, error)
            return False
        if self.runs and connection_error(self.path):
            return False  # the remote does not answer; keep the last list
        diagnosis = None if runs else diagnose(self.directory)
        state = runs, diagnosis, self.directory.left_out
        changed = state != (self.runs, self.survey, self.left_out)
        self.runs, self.survey, self.left_out = state
        return changed
