"""Values of settings: dotted names, numbers in texts, and values that may be secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

# -- config values -------------------------------------------------------------------------------------
# Values of settings: nested ones by dotted names, and texts that are numbers as numbers.


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


# -- config secrets ------------------------------------------------------------------------------------
# Recognises settings that may be secrets, by name and by value; such a value is never kept or shown.
#
# A setting is hidden when in doubt. Names of special tokens, such as ``pad_token``, are the exceptions.


#: Names of secrets, as parts of a dotted name.
_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|credential|private[_-]?key|api[_-]?key|access[_-]?key|auth(orization)?$"
    r"|cookie|webhook|(^|[._-])(pwd|dsn|bearer|jwt|pat)($|[._-])|account[_-]?key|signature|(^|[._-])sas($|[._-])"
    r"|client[_-]?id$|connection[_-]?string|basic[_-]?auth|ssh[_-]?key|encryption[_-]?key|^env\..*key$",
    re.IGNORECASE,
)
#: Other keys name a field of the data, such as ``prompt_key``, unless their value is as long as this.
_KEY, _LONG_KEY = re.compile(r"(^|[._-])keys?$", re.IGNORECASE), 16
#: Names that end in a token: of a service, unless the word before names a special token.
_TOKEN = re.compile(r"(?:^|[._-])([A-Za-z0-9]*?)[_-]?token$", re.IGNORECASE)
_SPECIAL = frozenset(
    (
        *(
            "pad",
            "eos",
            "bos",
            "unk",
            "mask",
            "sep",
            "cls",
            "image",
            "video",
            "audio",
            "think",
            "stop",
            "start",
        ),
        *("end", "per", "special", "first", "last", "tool", "by", "each", "boi", "eoi", "im", "in"),
    )
)
#: Values that are keys of known services, or texts that hold one.
_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.|wandb_v\d_\w{20,}|r8_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}|dop_v1_\w{20,})"
    r"|-----BEGIN|hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks"
    r"|://[^/\s:@]*:[^/\s@]+@|://[^/\s@:]{16,}@"
    r"|[?&](?:[\w-]*(?:token|key|secret|password|signature|credential)|sig)="
    r"|(?:bearer|basic)\s+[\w+/=.-]{12,}"
    r"|(?:api[_-]?key|token|secret|passw(?:or)?d|access[_-]?key)[\"']?\s*[=:]\s*[\"']?[^\s\"',]{6,}",
    re.IGNORECASE,
)
#: Long texts of letters and digits are keys, unless their name says that they are a version or a digest.
_RANDOM = re.compile(r"(?<![\w/.-])(?:[0-9a-f]{40}|(?=\w*[a-z])(?=\w*[A-Z])(?=\w*\d)\w{32,})(?![\w/.-])")
_DIGEST = re.compile(r"commit|sha|revision|hash|digest|checksum|git", re.IGNORECASE)


def holds_secret(text: str) -> bool:
    """Return whether a text holds what looks like a key of a known service, or a password in an address."""
    return _VALUE.search(text) is not None


def is_secret(name: str, value: object) -> bool:
    """Return whether a setting may be a secret.

    Parameters
    ----------
    name : str
        Dotted name.
    value : object
        Switches, numbers of names other than a password's, and missing values are not secrets.
    """
    if value is None or isinstance(value, bool) or value == "":
        return False
    if _NAME.search(name):
        return True
    if not isinstance(value, str):
        return False
    if _KEY.search(name) and len(value) >= _LONG_KEY:
        return True
    token = _TOKEN.search(name)
    if token is not None and token[1].lower() not in _SPECIAL:
        return True
    if _VALUE.search(value):
        return True
    return bool(_RANDOM.search(value)) and not _DIGEST.search(name)
