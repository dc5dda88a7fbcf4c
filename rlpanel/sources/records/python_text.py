"""Reads a value from Python's notation, as ``str`` and ``repr`` write it, without running any of it.

Objects of classes, such as ``Function(name='f', arguments='{}')``, become an object of their fields with the
class as ``type``, unless they have a field of this name. Loggers write them with ``default=str``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

#: Longer texts are not parsed: the tree takes some hundred times their memory.
_MAX_PARSED = 1 << 20
#: An object of a class, with its first field.
OBJECT = re.compile(r"\s*[A-Z]\w*\(\w+=")
#: Calls that stand for their only value.
_WRAPPERS = re.compile(r"array|tensor|(?:float|int|uint|bool|str)_?\d*|Decimal|UUID")
_NAMES = {"nan": float("nan"), "inf": float("inf"), "null": None, "true": True, "false": False}


def python_value(text: str) -> Any:
    """Return the value of a text in Python's notation; ValueError for any other text."""
    if len(text) > _MAX_PARSED:
        raise ValueError("the text is too long")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python's notation: {error}") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and not isinstance(node.value, bytes | complex):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, ast.Call):
        return _object(node)
    raise ValueError(f"{type(node).__name__} is not a value")


def _object(node: ast.Call) -> Any:
    """Return the fields of an object of a class, or the only value of one such as ``array([1.0])``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if node.args and _WRAPPERS.fullmatch(name):
        return _value(node.args[0])
    if node.args or not name[:1].isupper() or any(field.arg is None for field in node.keywords):
        raise ValueError(f"{name} is not an object of fields")
    return {"type": name} | {str(field.arg): _value(field.value) for field in node.keywords}
