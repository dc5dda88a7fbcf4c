"""rlpanel's exceptions, and the command that installs an extra. Each message names the place and the remedy.

RLPanelError
├── RunNotFound       (FileNotFoundError)  no such folder, or no rollouts in it
├── SampleNotFound    (KeyError)           the run has no sample with this uid
├── SourceChanged     (RuntimeError)       the bytes of a sample changed
├── SourceDamaged     (OSError)            compressed data that cannot be decoded
├── SourceUnready     (OSError)            a file that is incomplete, too large, or needs a missing package
├── RemoteError       (OSError)            files of another machine that cannot be fetched
├── UnsafePath        (OSError)            a link or another user's file in the place of a file to write
├── NotYetRead        (TimeoutError)       lines on disk that were not read in time
├── LineError         (ValueError)         a line of a log that is not a valid sample
│   └── LineTooLarge                       a line or document with more bytes, keys or samples than are read
├── FilterError       (ValueError)         a filter or search with a syntax error or unknown name
├── OutputError       (OSError)            output of a command that cannot be written, as on a full disk
├── QueryError        (ValueError)         an SQL query that is invalid, not allowed or exceeds a limit
└── SettingError      (ValueError)         an unknown setting, or one outside its bounds
"""

from __future__ import annotations

import re

#: Maximum length of the text of an unexpected error; it may quote a log.
_MESSAGE = 200


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an unexpected error as one printable line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "not enough memory"
    try:
        message = str(error)
    except Exception:  # such as a message with an integer of too many digits
        message = ""
    words = " ".join(message[: 4 * _MESSAGE].split())
    line = "".join(each if each.isprintable() else "\ufffd" for each in words[:_MESSAGE])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


class RLPanelError(Exception):
    """Base class of all exceptions that rlpanel raises."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The message as it is printed: one line, unless the package itself wrote several."""
        return (str(self),)


class RunNotFound(RLPanelError, FileNotFoundError):
    """Raised if a path holds no run; the message says what it holds, what is missing and what to type.

    Parameters
    ----------
    *lines : str
        Lines of the message.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self._lines = lines

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message."""
        return self._lines


class SampleNotFound(RLPanelError, KeyError):
    """The run has no sample with this uid."""

    def __str__(self) -> str:  # KeyError would put the message in quotes
        return str(self.args[0]) if self.args else ""


class NotYetRead(RLPanelError, TimeoutError):
    """Lines that were on disk are not read yet; the message names files and bytes."""


class SourceChanged(RLPanelError, RuntimeError):
    """A sample's file was rewritten, truncated or removed after it was indexed."""


class SourceDamaged(RLPanelError, OSError):
    """A compressed file cannot be decoded further; the lines before the damage are kept."""


class SourceUnready(RLPanelError, OSError):
    """A file cannot be read now, for the reason in the message; it is retried after it changes."""


class RemoteError(RLPanelError, OSError):
    """Files on another machine cannot be fetched now; the message says what to do."""


class UnsafePath(RLPanelError, OSError):
    """A path that rlpanel refuses to write: a link, not a regular file, or another user's file.

    Like other OSErrors, it is created from ``errno``, a reason and a path. The message is the path followed
    by the reason, so the reason starts with a verb: ``is a link``.
    """

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


class OutputError(RLPanelError, OSError):
    """The output of a command cannot be written, as on a full disk."""


class LineError(RLPanelError, ValueError):
    """A line is not a valid sample. The reader records its file, line, byte offset and the reason."""


class LineTooLarge(LineError):
    """A line or a document is whole, but has more bytes, keys, objects or samples than are read."""


class FilterError(RLPanelError, ValueError):
    """A filter or search has a syntax error or an unknown name.

    Attributes
    ----------
    at : int
        Position of the error in the text, in characters from 0.
    """

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class QueryError(RLPanelError, ValueError):
    """An SQL query is not valid, reads more than the run's tables, or exceeds a limit."""


class SettingError(RLPanelError, ValueError):
    """A setting does not exist or is out of bounds."""


# -- extra packages ------------------------------------------------------------------------------------
# Command that installs the packages of an extra, for messages about what is missing.
#
# The command names the packages themselves. It works for an rlpanel from an index, a wheel or a clone.


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages, such as ``pip install "duckdb>=2.0"``.

    Parameters
    ----------
    extra : str
        Name of an extra of rlpanel, as in ``rlpanel[sql]``.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("rlpanel") or []
    except PackageNotFoundError:  # a folder on the path, which was not installed
        lines = []
    of_extra = re.compile(rf"""extra == ["']{re.escape(extra)}["']""")
    packages = [line.partition(";")[0].strip() for line in lines if of_extra.search(line)]
    return "pip install " + " ".join(f'"{name}"' for name in packages or [f"rlpanel[{extra}]"])
