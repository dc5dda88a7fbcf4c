"""The user's cache folder, for files that cannot be written into a run's folder.

It is ``rlpanel`` below ``$XDG_CACHE_HOME`` or ``~/.cache``. Without a writable home directory it is
``rlpanel-<uid>`` in the temporary directory. It is private; a folder created by another user is refused.
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
    """Return the candidates for this user's cache folder, the best one first; not all of them exist."""
    return [*_in_home(), *_in_temporary()]


def open_cache(folder: Path, *, create: bool = False) -> SafeFolder:
    """Open one of `cache_folders`.

    Parameters
    ----------
    folder : Path
    create : bool
        Create it if it does not exist; if it does, revoke the access of other users.

    Raises
    ------
    UnsafePath
        If it is a link, or another user created it.
    OSError
        If it does not exist or cannot be created.
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
    """Log a warning once per message: an unusable folder causes the same message at every attempt."""
    log.warning("%s", message)


def _in_home() -> Iterator[Path]:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the XDG standard says to ignore relative paths
        yield Path(os.path.realpath(named), _NAME)
        return
    with suppress(RuntimeError, OSError):  # no HOME and no passwd entry, or a home that does not exist
        home = Path.home()
        # Under sudo, HOME may belong to another user, whose links could redirect our files.
        if home.is_absolute() and _belongs_to_us(home):
            yield Path(os.path.realpath(home / ".cache"), _NAME)


def _in_temporary() -> Iterator[Path]:
    with suppress(OSError):  # there may be no temporary directory
        user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
        yield Path(os.path.realpath(tempfile.gettempdir()), f"{_NAME}{user}")


def _belongs_to_us(home: Path) -> bool:
    return not hasattr(os, "geteuid") or home.stat().st_uid in (os.geteuid(), 0)
