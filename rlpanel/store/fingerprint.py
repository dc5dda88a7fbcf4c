"""What saved rows depend on besides the logs: the code that reads lines, and each metric over tokens."""

from __future__ import annotations

import re
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
    "metrics/constants.py",
    "metrics/declare.py",
    "metrics/fill.py",
    "metrics/gae.py",
    "metrics/laid.py",
    "metrics/registry.py",
    "metrics/segments.py",
    "store/stage.py",
    "store/columns.py",
)


_METRICS = Path(rlpanel.__file__).parent / "metrics"
#: Everything depends on these already.
_SHARED = frozenset(Path(name).name for name in _MAKERS)


@cache
def of_reading() -> str:
    """Changes with anything that could give other rows for the same lines, metrics left out."""
    root = Path(rlpanel.__file__).parent
    found = xxhash.xxh3_64()
    for path in sorted(path for pattern in _MAKERS for path in root.glob(pattern)):
        found.update(path.read_bytes())
    return found.hexdigest()


def of_columns() -> dict[str, str]:
    """By what each column over tokens is made: its metric, and the file that declares it."""
    return {name: _of_metric(m) for m in registry.of_level("token") for name in m.columns.values()}


def _of_metric(m: registry.Metric) -> str:
    code = m.function.__code__
    found = xxhash.xxh3_64(f"{m.needs} {code.co_consts} {code.co_names}".encode())
    found.update(code.co_code)
    home = getattr(sys.modules.get(m.function.__module__), "__file__", None)
    for path in sorted(_sources(Path(home))) if home else ():
        found.update(_content(path))
    return found.hexdigest()


@cache
def _sources(path: Path) -> frozenset[Path]:
    """A file, and what it imports from the package's metrics."""
    found = re.findall(rb"^from rlpanel\.metrics\.(\w+) import", _content(path), re.MULTILINE)
    others = [_METRICS / f"{name.decode()}.py" for name in found]
    return frozenset({path}.union(*(_sources(other) for other in others if other.name not in _SHARED)))


@cache
def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
