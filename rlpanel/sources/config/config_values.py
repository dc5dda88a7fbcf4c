"""Values of settings: nested ones by dotted names, and texts that are numbers as numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

#: A value of a setting; None if it is hidden, or null in the file.
ConfigValue: TypeAlias = "bool | int | float | str | None"
#: Most settings, levels of nesting, and characters of a name or value.
MAX_SETTINGS, MAX_LEVELS, MAX_CHARS = 2000, 12, 300
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d+")


def flat_settings(content: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield dotted name and value of each setting, and True for what is nested too deeply; in order."""
    stack: list[tuple[str, Any, int]] = [("", content, 0)]
    yielded = 0
    while stack and yielded < 2 * MAX_SETTINGS:
        name, value, level = stack.pop()
        is_list = isinstance(value, list | tuple)
        if isinstance(value, dict) or (is_list and any(isinstance(each, dict | list) for each in value)):
            if level >= MAX_LEVELS:
                yielded += 1
                yield name, None, True
                continue
            items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
            inner = [(_joined(name, key), each, level + 1) for key, each in items[: 2 * MAX_SETTINGS]]
            stack += reversed(inner)
            if not inner and name:
                yielded += 1
                yield name, "{}" if isinstance(value, dict) else "[]", False
        elif name:
            yielded += 1
            yield name[:MAX_CHARS], value, False
    yield from ((name, None, True) for name, _, _ in stack)


def _joined(name: str, key: object) -> str:
    if key == "<<":
        return name
    return f"{name}.{key}" if name else str(key)


def shown_value(value: Any) -> ConfigValue:
    """Return a value as it is shown: numbers in texts as numbers, lists as JSON, long texts cut."""
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:MAX_CHARS]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
        if len(text) < 40 and _NUMBER.fullmatch(text.strip()):
            return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if text.lower() in ("null", "none"):
            return None
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def setting_value(value: ConfigValue) -> str:
    """Return a value as people write it in a configuration; ``null`` without one."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_name(name: str) -> str:
    """Return the last part of a dotted name as Python spells it: ``--tis-clip`` and ``tis_clip`` are one."""
    return name.rsplit(".", 1)[-1].lstrip("-+").replace("-", "_").lower()
