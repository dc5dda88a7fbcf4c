"""Any file of lines or rows, once a person says which of its keys are which: ``prompt=input,reward=score``.

Every other key is read as a native one. A dot goes into an object: ``reward=scores.total``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel import schema
from rlpanel.errors import LineError, SettingError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import Record, number_in

_TEXTS = ("prompt", "response", "messages")
_KNOWN = (*schema.CANONICAL, "messages", "rewards", "prompt_token_ids")
_STEP = re.compile(r"step[_-]?(\d{1,15})(?!\d)")


@dataclass(frozen=True)
class Mapped:
    """Lines whose keys were told.

    Attributes
    ----------
    keys : tuple of (str, str)
        rlpanel's name and the line's key.
    """

    keys: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Tells one mapping from another."""
        return "map " + ",".join(f"{name}={key}" for name, key in self.keys)

    @property
    def looks(self) -> str:
        """The mapping, in words."""
        return f"any line with the keys of {self.name!r}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line has a text under a key that was told, and a step."""
        told = dict(self.keys)
        texts = any(_at(document, told.get(name, name)) is not None for name in _TEXTS)
        return texts and self._step(document, path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The line's one sample."""
        told = dict(self.keys)
        step = self._step(document, path)
        if step is None:
            raise LineError(f"no {told.get('step', 'step')!r}, and the file's name tells no step")
        wanted = [told.get(name, name) for name in _TEXTS[:2]]
        if all(_at(document, told.get(name, name)) is None for name in _TEXTS):
            raise LineError(f"neither {wanted[0]!r} nor {wanted[1]!r}, which the mapping names")
        return [record_of(step, self._fields(document), path, full=full)]

    def _step(self, document: Mapping[str, Any], path: str) -> Any:
        found = _at(document, dict(self.keys).get("step", "step"))
        if found is not None:
            return found
        named = _STEP.search(path)
        return number_in(path) if named is None else int(named[1])

    def _fields(self, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """What was told under rlpanel's names; a key of that name which means something else steps aside."""
        told = dict(self.keys)
        for name, key in told.items():
            if name != "step" and (value := _at(document, key)) is not None:
                yield name, value
        for key, value in document.items():
            if key not in told.values():
                yield f"logged_{key}" if key in told else key, value


def _at(document: Mapping[str, Any], key: str) -> Any:
    """The value of a key, or of a path into objects; None where there is none."""
    if key in document or "." not in key:
        return document.get(key)
    found: Any = document
    for part in key.split("."):
        found = plain(found)
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def mapping(keys: Mapping[str, Any]) -> Mapped:
    """A mapping from names to keys.

    Raises
    ------
    SettingError
        If a name is none of rlpanel's, or a key no text.
    """
    for name, key in keys.items():
        if name not in _KNOWN and not name.startswith("rewards/"):
            close = difflib.get_close_matches(name, _KNOWN, n=2)
            hint = f"; did you mean {' or '.join(close)}?" if close else f"; names are {', '.join(_KNOWN)}"
            raise SettingError(f"map: {name!r} is no name of rlpanel's{hint}")
        if not isinstance(key, str) or not key:
            raise SettingError(f"map: {name} must be a key of the file's lines, as in {name}=input")
    return Mapped(tuple((schema.CANONICAL.get(name, name), key) for name, key in keys.items()))


def parse_mapping(text: str) -> Mapped | None:
    """The mapping in ``prompt=input,response=output``; None for an empty text.

    Raises
    ------
    SettingError
        If it is written otherwise.
    """
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    wrong = next((name for name, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise SettingError(f"map: {wrong!r} has no '='; write prompt=input,response=output,reward=score")
    return mapping({name.strip(): key.strip() for name, _, key in pairs}) if pairs else None
