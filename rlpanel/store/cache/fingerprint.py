"""Fingerprints of the code that computed cached rows: of the reading code, and of each token metric.

A cached row is valid as long as the code that computes it is unchanged. That code is found by following the
import statements of the modules that build rows, so that a new or renamed module is always included.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import xxhash

import rlpanel
from rlpanel.metrics.engine import column_info
from rlpanel.sources.discovery import directory
from rlpanel.store.columns import row_builder

_PACKAGE = Path(rlpanel.__file__).parent
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(rlpanel[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+(rlpanel[\w.]*))",
    re.MULTILINE,
)


@cache
def reading_fingerprint() -> str:
    """Return the fingerprint of the code that turns lines into rows, without the metrics themselves."""
    return _hash_of(_reading_code())


def column_fingerprints() -> dict[str, str]:
    """Return the fingerprint of the token metric behind each column, by column name."""
    return {name: _hash_metric(m) for m in column_info.of_level("token") for name in m.columns.values()}


def _hash_metric(m: column_info.Metric) -> str:
    code = m.function.__code__
    digest = xxhash.xxh3_64(f"{m.needs} {code.co_consts} {code.co_names}".encode())
    digest.update(code.co_code)
    module_file = getattr(sys.modules.get(m.function.__module__), "__file__", None)
    if module_file:
        # The reading code has a fingerprint of its own.
        digest.update(_hash_of(imported_modules(Path(module_file)) - _reading_code()).encode())
    return digest.hexdigest()


@cache
def _reading_code() -> frozenset[Path]:
    return imported_modules(Path(directory.__file__)) | imported_modules(Path(row_builder.__file__))


def _hash_of(files: Iterable[Path]) -> str:
    digest = xxhash.xxh3_64()
    for path in sorted(files):
        digest.update(path.as_posix().removeprefix(_PACKAGE.as_posix()).encode())
        digest.update(_content(path))
    return digest.hexdigest()


@cache
def imported_modules(path: Path) -> frozenset[Path]:
    """Return the module's file and those of all rlpanel modules that it imports, directly or indirectly.

    Parameters
    ----------
    path : Path
        The module's file; it may be outside of the package, such as a user's own metric.
    """
    visited: set[Path] = set()
    stack = [path]
    while stack:
        if (file := stack.pop()) not in visited:
            visited.add(file)
            stack += imported_by(file)
    return frozenset(visited)


@cache
def imported_by(path: Path) -> frozenset[Path]:
    """Return the files that a module imports, including imports inside functions."""
    return frozenset(chain.from_iterable(map(_imported_files, _IMPORT.finditer(_content(path)))))


def _imported_files(statement: re.Match[bytes]) -> Iterator[Path]:
    """Yield the file of each module that an import statement names, or of its package."""
    package, names, module = (part.decode() if part else "" for part in statement.groups())
    names = re.sub(r"#.*|\bas\s+\w+", "", names)
    for target in (f"{package}.{name}" for name in re.findall(r"\w+", names)) if package else (module,):
        if file := _file_of(target) or _file_of(package):
            yield file


def _file_of(name: str) -> Path | None:
    """Return the file of a module or package of rlpanel; None if it does not exist."""
    path = _PACKAGE.joinpath(*name.split(".")[1:])
    candidates = (path.with_suffix(".py"), path / "__init__.py") if path != _PACKAGE else ()
    return next((file for file in candidates if file.is_file()), None)


@cache
def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
