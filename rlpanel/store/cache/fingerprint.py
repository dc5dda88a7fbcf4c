"""Fingerprints of the code that made saved rows: of the reading code, and of each token metric.

A saved row is believed as long as the code that would make it again is the same. That code is found by
following import statements from where rows are made, so a new or renamed module cannot be forgotten.
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
from rlpanel.sources.discovery import open_file
from rlpanel.store.columns import row_builder

_PACKAGE = Path(rlpanel.__file__).parent
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(rlpanel[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+(rlpanel[\w.]*))",
    re.MULTILINE,
)


@cache
def of_reading() -> str:
    """Fingerprint of the code that turns lines into rows, without the metrics themselves."""
    return _hash_of(_reading_code())


def of_columns() -> dict[str, str]:
    """Fingerprint of the metric behind each column over tokens, by the column's name."""
    return {name: _of_metric(m) for m in column_info.of_level("token") for name in m.columns.values()}


def _of_metric(m: column_info.Metric) -> str:
    code = m.function.__code__
    found = xxhash.xxh3_64(f"{m.needs} {code.co_consts} {code.co_names}".encode())
    found.update(code.co_code)
    home = getattr(sys.modules.get(m.function.__module__), "__file__", None)
    if home:
        # What is part of the reading code is in that fingerprint already.
        found.update(_hash_of(code_behind(Path(home)) - _reading_code()).encode())
    return found.hexdigest()


@cache
def _reading_code() -> frozenset[Path]:
    return code_behind(Path(open_file.__file__)) | code_behind(Path(row_builder.__file__))


def _hash_of(files: Iterable[Path]) -> str:
    found = xxhash.xxh3_64()
    for path in sorted(files):
        found.update(path.as_posix().removeprefix(_PACKAGE.as_posix()).encode())
        found.update(_content(path))
    return found.hexdigest()


@cache
def code_behind(path: Path) -> frozenset[Path]:
    """Files of the package that a module imports, directly or through others, and the module itself.

    Parameters
    ----------
    path : Path
        The module's file; it may lie outside the package, such as a user's own metric.
    """
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += _imported_by(file)
    return frozenset(seen)


@cache
def _imported_by(path: Path) -> frozenset[Path]:
    """Files behind a module's import statements; those inside functions count, too."""
    return frozenset(chain.from_iterable(map(_targets_of, _IMPORT.finditer(_content(path)))))


def _targets_of(statement: re.Match[bytes]) -> Iterator[Path]:
    """Files of the modules, or of the packages' own code, that one import statement names."""
    package, names, module = (part.decode() if part else "" for part in statement.groups())
    names = re.sub(r"#.*|\bas\s+\w+", "", names)
    for target in (f"{package}.{name}" for name in re.findall(r"\w+", names)) if package else (module,):
        if file := _file_of(target) or _file_of(package):
            yield file


def _file_of(name: str) -> Path | None:
    """The file of a module or package of rlpanel; None where there is none."""
    path = _PACKAGE.joinpath(*name.split(".")[1:])
    candidates = (path.with_suffix(".py"), path / "__init__.py") if path != _PACKAGE else ()
    return next((file for file in candidates if file.is_file()), None)


@cache
def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
