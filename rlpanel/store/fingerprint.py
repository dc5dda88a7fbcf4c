"""What saved rows depend on besides the logs: the code that reads lines and reduces tokens."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import xxhash

import rlpanel
from rlpanel.metrics import registry

#: Where rows are made, below the package.
_MAKERS = ("schema.py", "sources/**/*.py", "metrics/**/*.py", "store/stage.py", "store/columns.py")


def fingerprint() -> str:
    """Changes with anything that could give other rows for the same lines.

    Metrics over sample columns that were declared elsewhere do not count: they are not saved.
    """
    tokens = [m for m in registry.of_level("token") if m.columns]
    found = xxhash.xxh3_64(_package())
    for m in tokens:
        code = m.function.__code__
        found.update(f"{m.name} {m.needs} {tuple(m.columns)} {code.co_consts} {code.co_names}".encode())
        found.update(code.co_code)
    return found.hexdigest()


@cache
def _package() -> bytes:
    """The version, and a hash of the package's own files."""
    root = Path(rlpanel.__file__).parent
    found = xxhash.xxh3_64(rlpanel.__version__.encode())
    for path in sorted(path for pattern in _MAKERS for path in root.glob(pattern)):
        found.update(path.read_bytes())
    return found.digest()
