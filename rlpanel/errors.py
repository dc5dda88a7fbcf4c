"""The exception tree of rlpanel. Every message says where and what to do.

RLPanelError
├── RunNotFound       (FileNotFoundError)  no such folder, or no rollouts in it
├── SampleNotFound    (KeyError)           a uid that this run does not hold
├── SourceChanged     (RuntimeError)       the bytes behind a sample are no longer the same
├── SourceDamaged     (OSError)            compressed bytes that make no sense
├── SourceUnready     (OSError)            a file that makes no sense yet, or not here
├── RemoteError       (OSError)            another machine that does not give what is asked of it
├── UnsafePath        (OSError)            a link or another user's file where rlpanel would write
├── LineError         (ValueError)         one line of a log that is no sample
├── FilterError       (ValueError)         a filter or search that cannot be understood
└── SettingError      (ValueError)         a setting outside its bounds
"""

from __future__ import annotations


class RLPanelError(Exception):
    """Anything rlpanel raises on purpose."""


class RunNotFound(RLPanelError, FileNotFoundError):
    """The path holds no run; the message lists what was seen and what would be accepted."""


class SampleNotFound(RLPanelError, KeyError):
    """The run holds no sample with this uid."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class SourceChanged(RLPanelError, RuntimeError):
    """The file behind a sample was rewritten, truncated or removed since it was indexed."""


class SourceDamaged(RLPanelError, OSError):
    """A compressed file that cannot be read further; the lines before the damage are kept."""


class SourceUnready(RLPanelError, OSError):
    """A file that cannot be read now, and why; it is tried again when it changed."""


class RemoteError(RLPanelError, OSError):
    """Files on another machine that cannot be had just now; the message says what to do."""


class UnsafePath(RLPanelError, OSError):
    """A path that rlpanel does not write: a link, no regular file, or another user's file.

    Made as other errors of the system are, from ``errno``, the reason and the path. The reason follows the
    path in a sentence: ``is a link``.
    """

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


class LineError(RLPanelError, ValueError):
    """A line that cannot become a sample. The reader keeps it with file, line, offset and reason."""


class FilterError(RLPanelError, ValueError):
    """A filter or search that cannot be understood.

    Attributes
    ----------
    at : int
        Where in the text, in characters from 0.
    """

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class SettingError(RLPanelError, ValueError):
    """A setting that does not exist or is out of bounds."""
