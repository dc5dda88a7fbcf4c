"""Definitions taken from frameworks' sources at test time, executed without importing the framework.

Importing a framework needs its dependencies, many of which need a GPU. Its writers need few names, which are
given to them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / os.environ.get("UPSTREAM_SOURCES", ".venv-upstream/sources")


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
    (path,) = SOURCES.glob(f"*/**/{file}")
    tree = ast.parse(path.read_text("utf-8"))
    found = {name: node for name, node in _definitions(tree) if name in names}
    missing = set(names) - found.keys()
    assert not missing, f"{file} of this release has no {', '.join(sorted(missing))}"
    module = ast.Module([ast.parse("from __future__ import annotations").body[0], *found.values()], [])
    namespace: dict[str, Any] = dict(given)
    exec(compile(module, str(path), "exec"), namespace)
    return SimpleNamespace(**{name.rpartition(".")[2]: namespace[name.rpartition(".")[2]] for name in names})


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
