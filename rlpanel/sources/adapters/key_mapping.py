"""Reads files with unknown keys through the user's mapping: ``prompt=input,reward=score``.

Keys that are not in the mapping are read as native keys. A dot enters an object: ``reward=scores.total``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel import schema
from rlpanel.errors import LineError, SettingError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record, number_from_name, step_from_path

_TEXTS = ("prompt", "response", "messages")
_KNOWN = (*schema.CANONICAL, "messages", "rewards", "prompt_token_ids")


@dataclass(frozen=True)
class MappedAdapter:
    """Adapter that maps the keys of a line to rlpanel's names.

    Attributes
    ----------
    keys : tuple of (str, str)
        Pairs of rlpanel's name and the key in the line.
    """

    keys: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Unique name of this mapping."""
        return "map " + ",".join(f"{name}={key}" for name, key in self.keys)

    @property
    def looks(self) -> str:
        """Description of the mapping."""
        return f"any line with the keys of {self.name!r}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and a text under a mapped key."""
        mapped = dict(self.keys)
        texts = any(_value_at(document, mapped.get(name, name)) is not None for name in _TEXTS)
        return texts and self._step(document, path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        mapped = dict(self.keys)
        step = self._step(document, path)
        if step is None:
            raise LineError(f"no {mapped.get('step', 'step')!r}, and the file's name contains no step")
        wanted = [mapped.get(name, name) for name in _TEXTS[:2]]
        if all(_value_at(document, mapped.get(name, name)) is None for name in _TEXTS):
            raise LineError(f"neither {wanted[0]!r} nor {wanted[1]!r}, which the mapping requires")
        return [build_record(step, self._fields(document), path, full=full)]

    def _step(self, document: Mapping[str, Any], path: str) -> Any:
        value = _value_at(document, dict(self.keys).get("step", "step"))
        if value is not None:
            return value
        named = step_from_path(path)
        return number_from_name(path) if named is None else named

    def _fields(self, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the values under rlpanel's names; another key with such a name becomes ``logged_<name>``."""
        mapped = dict(self.keys)
        for name, key in mapped.items():
            if name != "step" and (value := _value_at(document, key)) is not None:
                yield name, value
        for key, value in document.items():
            if key not in mapped.values():
                yield f"logged_{key}" if key in mapped else key, value


def _value_at(document: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key or of a dotted path into objects; None if it does not exist."""
    if key in document or "." not in key:
        return document.get(key)
    value: Any = document
    for part in key.split("."):
        value = to_python(value)
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def create_mapping(keys: Mapping[str, Any]) -> MappedAdapter:
    """Create an adapter from a mapping of rlpanel's names to keys.

    Raises
    ------
    SettingError
        If a name is unknown to rlpanel, or a key is not a text.
    """
    for name, key in keys.items():
        if name not in _KNOWN and not name.startswith("rewards/"):
            close = difflib.get_close_matches(name, _KNOWN, n=2)
            hint = f"; did you mean {' or '.join(close)}?" if close else f"; names are {', '.join(_KNOWN)}"
            raise SettingError(f"map: unknown name {name!r}{hint}")
        if not isinstance(key, str) or not key:
            raise SettingError(f"map: {name} must be a key of the file's lines, as in {name}=input")
    return MappedAdapter(tuple((schema.CANONICAL.get(name, name), key) for name, key in keys.items()))


def parse_mapping(text: str) -> MappedAdapter | None:
    """Parse a mapping such as ``prompt=input,response=output``; None for an empty text.

    Raises
    ------
    SettingError
        If the text has another format.
    """
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    invalid = next((name for name, equals, _ in pairs if not equals), None)
    if invalid is not None:
        raise SettingError(f"map: {invalid!r} has no '='; write prompt=input,response=output,reward=score")
    return create_mapping({name.strip(): key.strip() for name, _, key in pairs}) if pairs else None
