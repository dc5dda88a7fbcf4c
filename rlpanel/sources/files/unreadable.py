"""Describes a file or folder that exists but is not read, with the reason."""

from __future__ import annotations

import errno
from dataclasses import dataclass

#: Error codes for too many open files in this process or on the machine.
_TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}


@dataclass(frozen=True)
class Unread:
    """A file or folder that is not read, and the reason.

    Attributes
    ----------
    file : str
        Name below the run or the root; a folder's name ends with a slash.
    reason : str
    consequence : str
        What happens when the reason is resolved, or what is kept until then; may be empty.
    """

    file: str
    reason: str
    consequence: str = "it will be read once this is resolved"

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"{self.file}: {self.reason}", self.consequence]))

    def covers(self, name: str) -> bool:
        """Return True if this is the file of that name, or a folder that contains it."""
        return name == self.file or (self.file.endswith("/") and name.startswith(self.file))


def reason_of(error: OSError) -> str:
    """Return an error's message without its number."""
    return error.strerror or str(error)


def too_many_open(error: OSError) -> bool:
    """Return True if too many files are open. Such an error says nothing about the file itself."""
    return error.errno in _TOO_MANY_OPEN
