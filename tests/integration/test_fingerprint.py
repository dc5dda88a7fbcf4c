"""Saved rows are only used if the code that made them is unchanged."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.store.cache import fingerprint

PACKAGE = Path(rlpanel.__file__).parent
#: Prints the fingerprints of the package in the working folder, then those after each change of one file.
CHILD = """
import json, os, sys
from pathlib import Path
import rlpanel.metrics
from rlpanel.store.cache import fingerprint
for name in ["", *sys.argv[1:]]:
    file = Path("rlpanel") / name
    before = file.read_bytes() if name else b""
    if name:
        file.write_bytes(before + b"\\nCHANGED = True\\n")
    if os.fork() == 0:  # it has hashed no file yet
        print(json.dumps([fingerprint.reading_fingerprint(), fingerprint.column_fingerprints()]), flush=True)
        os._exit(0)
    os.wait()
    if name:
        file.write_bytes(before)
"""
LOADED = """
import json, sys
import rlpanel.store.columns.row_builder, rlpanel.sources.discovery.directory
print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.startswith("rlpanel.")]))
"""


def run_python(code: str, folder: Path, *arguments: str) -> list[Any]:
    """Return the lines that a Python process prints, as JSON; it imports the package from this folder."""
    command = [sys.executable, "-c", code, *arguments]
    child = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in child.stdout.splitlines()]


@pytest.fixture(scope="module")
def original() -> list[Any]:
    """The fingerprints of reading, and of all columns."""
    [found] = run_python(CHILD, PACKAGE.parent)
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that a test may change."""
    return shutil.copytree(
        PACKAGE, tmp_path / "rlpanel", ignore=shutil.ignore_patterns("__pycache__", "data", "*.css", "*.js")
    )


def test_another_place_of_the_same_code_changes_nothing(package: Path, original: list[Any]) -> None:
    for asset in [*PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.css")]:
        shutil.copy(asset, package / asset.relative_to(PACKAGE))
    assert run_python(CHILD, package.parent) == [original]


def test_a_changed_metric_module_changes_its_columns_only(package: Path, original: list[Any]) -> None:
    value, divergence = "value_mean", "kl_k3_mean"
    changed_by = {
        "metrics/critic_value.py": value,
        "metrics/kl_divergence.py": divergence,
        # A helper that metrics import belongs to them.
        "metrics/engine/segments.py": value,
    }
    _, *found = run_python(CHILD, package.parent, *changed_by)
    reading, columns = original
    for (file, changed), (now_reading, now_columns) in zip(changed_by.items(), found, strict=True):
        assert now_reading == reading, file
        assert {name for name in (value, divergence) if now_columns[name] != columns[name]} == {changed}, file


def test_a_renamed_metric_module_changes_its_columns(package: Path, original: list[Any]) -> None:
    (package / "metrics/critic_value.py").rename(package / "metrics/critic_values.py")
    importer = package / "metrics/__init__.py"
    importer.write_text(re.sub(r"\bcritic_value\b", "critic_values", importer.read_text("utf-8")), "utf-8")
    [(reading, columns)] = run_python(CHILD, package.parent)
    assert reading == original[0]
    assert columns["value_mean"] != original[1]["value_mean"]
    assert columns["kl_k3_mean"] == original[1]["kl_k3_mean"]


def test_changed_reading_code_changes_the_fingerprint_of_reading(package: Path, original: list[Any]) -> None:
    files = [
        "sources/adapters/verl.py",
        "sources/adapters/__init__.py",
        "store/columns/row_builder.py",
        "metrics/engine/derived_arrays.py",
        "schema.py",
    ]
    unchanged, *found = run_python(CHILD, package.parent, *files)
    assert unchanged[0] == original[0]
    assert [file for file, (reading, _) in zip(files, found, strict=True) if reading == original[0]] == []


def test_all_modules_that_reading_imports_are_counted() -> None:
    counted = fingerprint.imported_modules(Path(sys.modules["rlpanel.store.columns.row_builder"].__file__))
    counted |= fingerprint.imported_modules(Path(sys.modules["rlpanel.sources.discovery.directory"].__file__))
    [files] = run_python(LOADED, PACKAGE.parent)
    loaded = {Path(file) for file in files}
    # Packages are imported with their modules; those that declare nothing are left out.
    missed = {file for file in loaded - counted if file.name != "__init__.py"}
    assert {file for file in missed if not file.is_relative_to(PACKAGE / "metrics")} == set()


def test_import_statements_are_read_as_python_reads_them() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    found = {module: fingerprint.imported_by(module) for module in modules}
    assert found == {module: imports_by_ast(module) for module in modules}


def imports_by_ast(module: Path) -> set[Path]:
    """Find with Python's own parser the imports that `fingerprint` finds by pattern."""
    files = set()
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rlpanel":
            files |= {file_of(f"{node.module}.{a.name}") or file_of(node.module) for a in node.names}
        elif isinstance(node, ast.Import):
            files |= {file_of(a.name) for a in node.names if a.name.startswith("rlpanel.")}
    return files - {None}


def file_of(name: str) -> Path | None:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    if path != PACKAGE and path.with_suffix(".py").is_file():
        return path.with_suffix(".py")
    return path / "__init__.py" if path != PACKAGE and (path / "__init__.py").is_file() else None
