"""Definitions taken from frameworks' sources at test time, executed without importing the framework.

Importing a framework needs its dependencies, many of which need a GPU. Its writers need few names, which are
given to them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / os.environ.get("UPSTREAM_SOURCES", ".venv-upstream/sources")
#: Packages that are imported as a whole, with what they need.
INSTALLED = SOURCES.parent / "installed"


class MissingWriter(Exception):
    """A release without the file, function or class that a writer executes."""


def load(file: str, *names: str, **given: Any) -> SimpleNamespace:
    """Execute definitions of a source file and return them by name.

    Parameters
    ----------
    file : str
        Path below a framework's folder, as ``verl/trainer/ppo/ray_trainer.py``; it is searched there.
    *names : str
        Functions or classes, or methods as ``Class.method``, which become functions.
    **given
        Names that the definitions use.
    """
    found = _find(file, names)
    space = _execute(file, found.values(), given)
    return SimpleNamespace(**{name.rpartition(".")[2]: space[name.rpartition(".")[2]] for name in names})


def load_branch(file: str, name: str, words: str, arguments: str, result: str, **given: Any) -> Any:
    """Return a function of the smallest ``if`` statement of a method with some words.

    Parameters
    ----------
    file, name : str
        See `load`.
    words : str
    arguments : str
        Names that the statement reads, separated by commas: the function's arguments.
    result : str
        Name that the statement sets: the function's result.
    **given
        Further names that it uses.
    """
    [method] = _find(file, [name]).values()
    found = [each for each in ast.walk(method) if isinstance(each, ast.If) and words in ast.unparse(each)]
    smallest = min(found, key=lambda each: len(ast.unparse(each)), default=None)
    if smallest is None:
        raise MissingWriter(f"{name} in {file} of this release has no branch with {words!r}")
    [made] = ast.parse(f"def branch({arguments}):\n    return {result}").body
    assert isinstance(made, ast.FunctionDef)
    made.body.insert(0, smallest)
    return _execute(file, [ast.fix_missing_locations(made)], given)["branch"]


def load_class(file: str, name: str, *methods: str, base: type = object, **given: Any) -> type:
    """Return a class with some methods of a source file's class, on another base; see `load`."""
    found = _find(file, [f"{name}.{method}" for method in methods])
    made = ast.ClassDef(name, [ast.Name("Base", ast.Load())], [], list(found.values()), [])
    return _execute(file, [ast.fix_missing_locations(made)], {"Base": base, **given})[name]


def class_with(file: str, method: str) -> str:
    """Return the name of a source file's class that has a method."""
    tree = ast.parse(_path(file).read_text("utf-8"))
    found = [name for name, _ in _definitions(tree) if name.endswith(f".{method}")]
    if len(found) != 1:
        raise MissingWriter(f"{file} of this release has {len(found)} classes with {method}")
    return found[0].partition(".")[0]


def _find(file: str, names: Iterable[str]) -> dict[str, ast.stmt]:
    tree = ast.parse(_path(file).read_text("utf-8"))
    found = {name: node for name, node in _definitions(tree) if name in names}
    if missing := set(names) - found.keys():
        raise MissingWriter(f"{file} of this release has no {', '.join(sorted(missing))}")
    return found


def _path(file: str) -> Path:
    found = list(SOURCES.glob(f"*/**/{file}"))
    if len(found) != 1:
        raise MissingWriter(f"this release has {len(found)} files {file}")
    return found[0]


def _execute(file: str, nodes: Iterable[ast.stmt], given: dict[str, Any]) -> dict[str, Any]:
    module = ast.Module([*ast.parse("from __future__ import annotations").body, *nodes], [])
    space = {"__name__": __name__, **given}  # dataclasses look up the module
    exec(compile(module, str(_path(file)), "exec"), space)
    return space


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, node
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    method.decorator_list = [] if node.name not in _KEPT else method.decorator_list
                    yield f"{node.name}.{method.name}", method
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


#: Classes that are executed as a whole and need their decorators.
_KEPT = frozenset({"Experience", "JsonlWriter"})
