"""Recognises settings that may be secrets, by name and by value; such a value is never kept or shown.

A setting is hidden when in doubt. Names of special tokens, such as ``pad_token``, are the exceptions.
"""

from __future__ import annotations

import re

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
