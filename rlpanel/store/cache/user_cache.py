"""The user's own cache folder, for what cannot be kept beside a run.

It is ``rlpanel`` below ``$XDG_CACHE_HOME`` or ``~/.cache``. Where there is no home that can be written, it is
``rlpanel-<uid>`` in the temporary folder. It is private, and one that another user made is refused.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from rlpanel.safe_files import SafeFolder

log = logging.getLogger(__name__)

_NAME = "rlpanel"


def cache_folders() -> list[Path]:
    """The folders that may be this user's cache, the best one first; not all of them exist."""
    return [*_in_home(), *_in_temporary()]


def open_cache(folder: Path, *, create: bool = False) -> SafeFolder:
    """Open one of `cache_folders`.

    Parameters
    ----------
    folder : Path
    create : bool
        Make it if it does not exist, and take it from other users' reach if it does.

    Raises
    ------
    UnsafePath
        If it is a link or another user made it.
    OSError
        If it does not exist or cannot be made.
    """
    with SafeFolder.open(folder.parent, create=create, mode=0o700) as parent:
        opened = parent.subfolder(folder.name, create=create, mode=0o700)
    try:
        opened.require_own()
        if create:
            opened.make_private()
    except BaseException:
        opened.close()
        raise
    return opened


@lru_cache(maxsize=1000)
def warn_once(message: str) -> None:
    """Log a warning, each once: what is wrong with a folder is met again at every try."""
    log.warning("%s", message)


def _in_home() -> Iterator[Path]:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # others do not count, says the standard
        yield Path(os.path.realpath(named), _NAME)
        return
    with suppress(RuntimeError, OSError):  # no HOME and no passwd entry, or a home that does not exist
        home = Path.home()
        # Under sudo, HOME may be another user's: his links would lead our files anywhere.
        if home.is_absolute() and _belongs_to_us(home):
            yield Path(os.path.realpath(home / ".cache"), _NAME)


def _in_temporary() -> Iterator[Path]:
    with suppress(OSError):  # there is no such folder
        user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
        yield Path(os.path.realpath(tempfile.gettempdir()), f"{_NAME}{user}")


def _belongs_to_us(home: Path) -> bool:
    return not hasattr(os, "geteuid") or home.stat().st_uid in (os.geteuid(), 0)
