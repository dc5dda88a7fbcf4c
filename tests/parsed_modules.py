"""Imports, classes and constants of a module, parsed once for all tests that ask for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class ParsedModule:
    """What a module imports anywhere, also in functions; classes and constants that it defines at its top."""

    imports: tuple[Import, ...]
    classes: tuple[str, ...]
    constants: tuple[str, ...]


@cache
def parsed(path: Path) -> ParsedModule:
    """Parse a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    constants = tuple(part.id for part in parts if isinstance(part, ast.Name))
    return ParsedModule(tuple(_imports(tree)), classes, constants)


def _imports(node: ast.AST) -> Iterator[Import]:
    """Yield the import statements below a node; expressions hold none, so they are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Import):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _imports(child)
