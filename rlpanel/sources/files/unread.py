"""A file or folder that is there and is not read, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unread:
    """A file or folder that is not read, and the reason.

    Attributes
    ----------
    file : str
        Its name below the run or the root; a folder's ends with a slash.
    reason : str
    outlook : str
        What happens when the reason is gone, or what is kept; may be empty.
    """

    file: str
    reason: str
    outlook: str = "it is read when that is over"

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"{self.file}: {self.reason}", self.outlook]))

    def covers(self, name: str) -> bool:
        """Return True if this is the file of that name, or the folder that holds it."""
        return name == self.file or (self.file.endswith("/") and name.startswith(self.file))


def reason_of(error: OSError) -> str:
    """An error in words, without its number."""
    return error.strerror or str(error)
