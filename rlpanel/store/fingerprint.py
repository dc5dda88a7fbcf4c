"""What saved rows depend on besides the logs: the code that reads lines, and each metric over tokens."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import xxhash

import rlpanel
from rlpanel.metrics import registry

#: Where rows are made, below the package.
_MAKERS = (
    "schema.py",
    "sources/**/*.py",
    "metrics/compute.py",
    "metrics/registry.py",
    "store/stage.py",
    "store/columns.py",
)


@cache
def of_reading() -> str:
    """Changes with anything that could give other rows for the same lines, metrics left out."""
    root = Path(rlpanel.__file__).parent
    found = xxhash.xxh3_64()
    for path in sorted(path for pattern in _MAKERS for path in root.glob(pattern)):
        found.update(path.read_bytes())
    return found.hexdigest()


def of_columns() -> dict[str, str]:
    """What each column that is reduced from tokens was made by: its metric, and the file that declares it."""
    return {
        f"{m.name}_{reduction}": _of_metric(m)
        for m in registry.of_level("token")
        for reduction in m.reductions
    }


def _of_metric(m: registry.Metric) -> str:
    code = m.function.__code__
    found = xxhash.xxh3_64(f"{m.needs} {code.co_consts} {code.co_names}".encode())
    found.update(code.co_code)
    home = getattr(sys.modules.get(m.function.__module__), "__file__", None)
    found.update(_bytes(home) if home else b"")
    return found.hexdigest()


@cache
def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
