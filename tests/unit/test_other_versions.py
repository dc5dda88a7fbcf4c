"""`make oldest` and `make newest` test all parts of the package that depend on other packages' versions."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tests.parsed_modules import parsed

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def dependencies_of(folder: Path) -> set[str]:
    """Return the third-party modules that a folder of the package imports."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in parsed(path).imports:
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"rlpanel"}


def test_what_is_left_out_imports_no_dependency() -> None:
    listed = re.search(r"^WITHOUT_DEPENDENCIES := (.*)$", MAKEFILE, re.MULTILINE)
    assert listed
    folders = [ROOT / "rlpanel" / Path(name).name for name in listed[1].split()]
    assert folders
    assert all(folder.is_dir() for folder in folders)
    assert {folder.name: dependencies_of(folder) for folder in folders if dependencies_of(folder)} == {}


def test_the_files_and_tests_that_are_listed_exist() -> None:
    listed = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", MAKEFILE)
    assert len(listed) > 5
    for name, test in listed:
        assert f"def {test}" in (ROOT / name).read_text("utf-8"), (name, test)
