"""Reads files with unknown keys through the user's mapping: ``prompt=input,reward=score``.

Keys that are not in the mapping are read as native keys. A dot enters an object or a list:
``reward=scores.total``, ``response=choices.0.text``. An integer is the step of all lines, for logs without
one: ``step=0``. A line may hold one sample, or several as columns: lists of equal length, and values that all
samples share.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpanel import schema
from rlpanel.errors import LineError, SettingError
from rlpanel.sources.adapters.columnar import count_samples, holds_samples, is_list, split_group
from rlpanel.sources.adapters.record_shapes import (
    PLUS,
    PREFIX,
    QUESTION_PREFIX,
    STEP_PREFIX,
    TALK,
    arrange_by_id,
    arrange_by_step,
    arrange_question,
    arrange_talk,
    columns_of,
    says_better,
    stands_for_columns,
    values_of,
    wins_of,
)
from rlpanel.sources.records.field_values import STEP_LIMIT
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.messages import is_messages
from rlpanel.sources.records.path_numbers import step_from_path
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.text_pieces import are_pieces
from rlpanel.sources.records.value_shapes import verdict_of
from rlpanel.sources.spans.call_tree import PREFIX as CALLS_PREFIX
from rlpanel.sources.spans.call_tree import arrange_calls

_TEXTS = ("prompt", "response", "messages")
_ABSENT = object()
_NUMBER, _QUOTED_NUMBER = re.compile(r"-?\d{1,16}", re.ASCII), re.compile(r'"-?\d+"', re.ASCII)
#: Fewest columns of a table that is one object.
_MIN_COLUMNS = 2
#: The part of a path that leads to objects.
_STARS = re.compile(r"(?:[^*]*\.)?\*(?:\.\*)*(?=\.)")
#: Beginnings of keys that a document gets by being arranged: texts by id, samples by step, questions, calls,
#: talks.
_ARRANGED = (
    (PREFIX, arrange_by_id),
    (STEP_PREFIX, arrange_by_step),
    (QUESTION_PREFIX, arrange_question),
    (CALLS_PREFIX, arrange_calls),
    (TALK, arrange_talk),
)
_KNOWN = (*schema.CANONICAL, "messages", "rewards", "prompt_token_ids")


@dataclass(frozen=True)
class MappedAdapter:
    """Adapter that maps the keys of a line to rlpanel's names.

    Attributes
    ----------
    keys : tuple of (str, str)
        Pairs of rlpanel's name and the key in the line.
    step : int or None
        Step of all lines; None if each line or its file has its own.
    """

    keys: tuple[tuple[str, str], ...]
    step: int | None = None

    @property
    def name(self) -> str:
        """Unique name of this mapping."""
        pairs = [f"{name}={key}" for name, key in self.keys]
        pairs += [] if self.step is None else [f"step:{self.step}"]
        return "map " + ",".join(pairs)

    @property
    def begins_with_all(self) -> bool:
        """True if a key leads through all values of a document: ``*.results.*.answer``."""
        return any(key.startswith("*.") for _, key in self.keys)

    @property
    def looks(self) -> str:
        """Description of the mapping."""
        return f"any line with the keys of {self.name!r}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has a step and a text under a mapped key."""
        document = self._arranged(document)
        return bool(self._texts(document)) and self._step(document, path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's samples."""
        document, mapped = self._arranged(document), dict(self.keys)
        if self._step(document, path) is None:
            raise LineError(f"no {mapped.get('step', 'step')!r}, and the file's name contains no step")
        wanted = [mapped.get(name, name) for name in _TEXTS[:2]]
        if not self._texts(document) and not self._is_rewarded(document):
            raise LineError(f"neither {wanted[0]!r} nor {wanted[1]!r}, which the mapping requires")
        samples: Iterable[Mapping[str, Any]]
        if any(_prefix_of(key) for _, key in self.keys):
            samples = (part for item in self._split_items(document) for part in self._parts(item))
        elif self._is_columnar(document):
            samples = self._split(document)
        else:
            samples = self._parts(document)
        return [build_record(self._step(each, path), self._fields(each), path, full=full) for each in samples]

    def _arranged(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a document whose columns are lists, with what the keys want to be arranged."""
        return _arranged(listed_columns(document), [key for _, key in self.keys])

    def absent_from(self, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Return the mapped names and keys that no record has."""
        records = [self._arranged(record) for record in records]
        return {
            name: key
            for name, key in self.keys
            if all(value_at(record, key, _ABSENT) is _ABSENT for record in records)
        }

    def _texts(self, document: Mapping[str, Any]) -> list[Any]:
        mapped = dict(self.keys)
        values = (value_at(document, mapped.get(name, name)) for name in _TEXTS)
        return [value for value in values if value is not None]

    def _is_rewarded(self, document: Mapping[str, Any]) -> bool:
        """Return True for a sample whose text is null, but not its reward or truth: all samples count."""
        mapped = dict(self.keys)
        answered = mapped.get("response", mapped.get("messages", "response"))
        has_key = value_at(document, answered.rpartition(".")[0] or answered, _ABSENT) is not _ABSENT
        judged = [mapped[name] for name in ("reward", "ground_truth") if name in mapped]
        return has_key and any(value_at(document, key) is not None for key in judged)

    def _is_columnar(self, document: Mapping[str, Any]) -> bool:
        """Return True if the step, the response or each text is a list with one item per sample.

        A list of objects is not: it is the conversation of a single sample.
        """
        step = None if self.step is not None else value_at(document, dict(self.keys).get("step", "step"))
        texts = self._texts(document)  # none in a sample that has only a reward or a truth
        return is_list(step) or (bool(texts) and all(map(holds_samples, texts)))

    def _responses(self, document: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return the response of a line, and its rewards, which are lists if it holds a group."""
        mapped = dict(self.keys)
        rewards = {"reward", *(name for name in mapped if name.startswith("reward"))}
        response = value_at(document, mapped.get("response", "response"))
        if response is None and "messages" in mapped:
            messages = to_python(value_at(document, mapped["messages"]))
            response = messages if is_list(messages) and all(map(is_list, messages)) else None
        return response, [value_at(document, mapped.get(name, name)) for name in rewards]

    def _parts(self, document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Return the samples of an object, which may hold a group."""
        return self._split_group(document) if holds_samples(self._responses(document)[0]) else (document,)

    def _split_items(
        self, document: Mapping[str, Any], paths: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield one document per object to which the keys' ``*`` lead, with what is around the objects."""
        paths = {key: key for _, key in self.keys} if paths is None else paths
        prefix = next(filter(None, map(_prefix_of, paths.values())), "")
        if not prefix:
            document = _arranged(document, paths.values())
            yield {key: value for key, value in document.items() if key not in paths.values()} | {
                key: value_at(document, path) for key, path in paths.items()
            }
            return
        items, outer = list(objects_at(document, prefix)), prefix.partition(".")[0]
        left_out = document.keys() if outer == "*" else {outer}
        around = {key: to_python(value) for key, value in document.items() if key not in left_out}
        inner = {key: path for key, path in paths.items() if _prefix_of(path) == prefix}
        others = {key: path for key, path in paths.items() if not _prefix_of(path)}
        around |= {key: to_python(value_at(document, path)) for key, path in others.items()}
        count = count_samples({prefix: items}, len(around) + max(map(len, items), default=0))
        below = {key: path[len(prefix) + 1 :] for key, path in inner.items()}
        for item, shared in zip(items, split_group(around, count), strict=True):
            for sample in self._split_items(item, below):
                yield sample | {key: value for key, value in shared.items() if key not in below}

    def _split_group(self, document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield one document per sample of a group; dotted keys lead to values inside of objects."""
        inside = {key: value_at(document, key) for _, key in self.keys if key not in document}
        found = {**document, **{key: value for key, value in inside.items() if value is not None}}
        values = {key: to_python(value) for key, value in found.items()}
        values |= self._of_columns(values)
        response, rewards = self._responses(values)
        lists = {f"reward {at}": each for at, each in enumerate(rewards) if is_list(each)}
        yield from split_group(values, count_samples({"response": response} | lists, len(values)))

    def _of_columns(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the names of the columns that are samples, and 1 or 0 for each from a verdict on all."""
        mapped = dict(self.keys)
        key = mapped.get("response") or mapped.get("messages", "")
        systems = value_at(values, key.removesuffix(".*")) if key.endswith(".*") else None
        if isinstance(systems, dict):
            return {} if "column" in values else {"column": list(systems)}
        if not stands_for_columns(key):
            return {}
        names = columns_of(key, values)
        found = self._wins(values, names)
        return found if key.endswith("*") or "column" in values else found | {"column": names}

    def _wins(self, values: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
        key = dict(self.keys).get("reward", "reward")
        wins = wins_of(values.get(key), names, values) if says_better(key) else None
        return {} if wins is None else {key: wins}

    def _split(self, document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield one document per sample; LineError if lists that are fields differ in length."""
        mapped = [key for _, key in self.keys]
        inside = {key: value_at(document, key) for key in mapped if key not in document}
        found = {**document, **{key: value for key, value in inside.items() if value is not None}}
        values = {key: to_python(value) for key, value in found.items()}
        lists = {key: each for key, each in values.items() if isinstance(each, list) and each}
        columns = {key: each for key, each in lists.items() if key in mapped or key in _KNOWN}
        count = count_samples(columns, len(values))
        columns |= {key: each for key, each in lists.items() if len(each) == count}
        for index in range(count):
            yield values | {key: column[index] for key, column in columns.items()}

    def _step(self, document: Mapping[str, Any], path: str) -> Any:
        if self.step is not None:
            return self.step
        value = self._logged_step(document)
        return step_from_path(path) if value is None else value

    def _logged_step(self, document: Mapping[str, Any]) -> Any:
        """Return the step in a line; None without one, or if all lines have the same."""
        return None if self.step is not None else value_at(document, dict(self.keys).get("step", "step"))

    def _fields(self, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the values under rlpanel's names; another key with such a name becomes ``logged_<name>``."""
        mapped = dict(self.keys)
        taken = mapped.keys() | ({"step"} if self.step is not None else set())
        if not self._texts(document) and mapped.keys() >= {"response", "ground_truth"}:
            # An empty answer to a question with a known one; a reward alone says as much.
            yield from [("response", "")] if value_at(document, mapped["ground_truth"]) is not None else []
        for name, key in mapped.items():
            if name != "step" and (value := value_at(document, key)) is not None:
                yield name, _plain_value(name, value)
        several = [key for key in mapped.values() if stands_for_columns(key)]
        left_out = {name for key in several for name in columns_of(key, document)}
        for key, value in document.items():
            if key not in mapped.values() and key not in left_out:
                yield f"logged_{key}" if key in taken else key, value


def _arranged(document: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """Return a document with what some of the keys want to be arranged."""
    wanted = [arrange for begin, arrange in _ARRANGED if any(key.startswith(begin) for key in keys)]
    return next(filter(None, (arrange(document) for arrange in wanted)), document)


def listed_columns(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table's columns as lists if they are objects by row, as pandas writes them; else the document.

    All values must be objects with the same keys, which count from 0.
    """
    if len(document) < _MIN_COLUMNS or not hasattr(next(iter(document.values())), "keys"):
        return document
    values = [to_python(value) for value in document.values()]
    rows = [str(row) for row in range(len(values[0]))]
    if not rows or not all(isinstance(value, dict) and list(value) == rows for value in values):
        return document
    return {key: list(value.values()) for key, value in zip(document, values, strict=True)}


def _prefix_of(path: str) -> str:
    """Return the part of a path up to its first ``*``, or several in a row; empty without one."""
    found = _STARS.match(path)
    return found[0] if found is not None else ""


def objects_at(document: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the objects to which a path leads; each ``*`` stands for all items of a list or an object.

    Texts and numbers beside objects in an object describe them, and are left out.

    Raises
    ------
    LineError
        If something else is there.
    """
    found: list[Any] = [document]
    for part in prefix.split("."):
        values = [to_python(value) for value in found]
        if part != "*":
            found = [value[part] for value in values if isinstance(value, Mapping) and part in value]
            continue
        found, described = [], False
        for value in values:
            if not isinstance(value, (list, Mapping)):
                raise LineError(f"{prefix!r} leads to something else than objects")
            found += value if isinstance(value, list) else map(to_python, value.values())
            described |= isinstance(value, Mapping)
        if described:
            found = [item for item in found if isinstance(item, (dict, list))] or found
    for item in map(to_python, found):
        if not isinstance(item, dict):
            raise LineError(f"{prefix!r} leads to something else than objects")
        yield item


def value_at(document: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Return the value of a key or of a dotted path into objects and lists; the default without one.

    ``*`` stands for each object of a list: the value is the list of theirs. Inside of a name it stands for
    several columns (`record_shapes`).
    """
    if key in document or "." not in key:
        if key not in document and stands_for_columns(key):
            return values_of(key, document, default)
        return document.get(key, default)
    if PLUS in key and stands_for_columns(key):
        return values_of(key, document, default)
    return _value_in(document, key.split("."), default)


def _value_in(value: Any, parts: Sequence[str], default: Any) -> Any:
    for at, part in enumerate(parts):
        value = to_python(value)
        if part == "*" and isinstance(value, (list, Mapping)):
            items = value if isinstance(value, list) else value.values()
            found = [_value_in(item, parts[at + 1 :], None) for item in items]
            return found if any(each is not None for each in found) else default
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            return default
    return value


def _plain_value(name: str, value: Any) -> Any:
    """Return a field's value; a reward that is a verdict such as ``correct`` as its number."""
    if name == "response":
        return _response_text(value)
    plain = to_python(value) if name == "reward" else None
    if not isinstance(plain, str):
        return value
    verdict = verdict_of(plain)
    return plain if verdict is None else verdict


def _response_text(value: Any) -> Any:
    """Return a response as it is, its pieces as one text, and objects such as a plan as JSON."""
    if isinstance(value, str) or not (is_list(value) or hasattr(value, "keys")):
        return value
    plain = to_python(value)
    if isinstance(plain, list) and are_pieces(plain):
        return "".join(plain)
    return plain if is_messages(plain) else json.dumps(plain, ensure_ascii=False)


def create_mapping(keys: Mapping[str, Any]) -> MappedAdapter:
    """Create an adapter from a mapping of rlpanel's names to keys; an integer is the step of all lines.

    Raises
    ------
    SettingError
        If a name is unknown to rlpanel, or a key is not a text.
    """
    names = dict(keys)
    step = names.pop("step") if type(names.get("step")) is int else None
    if step is not None and abs(step) >= STEP_LIMIT:
        raise SettingError("map: the step must be below 2^53")
    for name, key in names.items():
        if name not in _KNOWN and not name.startswith("rewards/"):
            close = difflib.get_close_matches(name, _KNOWN, n=2)
            hint = f"; did you mean {' or '.join(close)}?" if close else f"; names are {', '.join(_KNOWN)}"
            raise SettingError(f"map: unknown name {name!r}{hint}")
        if not isinstance(key, str) or not key:
            raise SettingError(f"map: {name} must be a key of the file's lines, as in {name}=input")
    return MappedAdapter(tuple((schema.CANONICAL.get(name, name), key) for name, key in names.items()), step)


def parse_mapping(text: str) -> MappedAdapter | None:
    """Parse a mapping such as ``prompt=input,response=output``; None for an empty text.

    ``step=0`` gives all lines step 0, and ``step="0"`` is a key, as in ``rlpanel.toml``.

    Raises
    ------
    SettingError
        If the text has another format.
    """
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    invalid = next((name for name, equals, _ in pairs if not equals), None)
    if invalid is not None:
        raise SettingError(f"map: {invalid!r} has no '='; write prompt=input,response=output,reward=score")
    keys = {name.strip(): _key_or_step(name.strip(), key.strip()) for name, _, key in pairs}
    return create_mapping(keys) if keys else None


def _key_or_step(name: str, text: str) -> str | int:
    """Return the number in ``step=0``, the key in ``step="0"``, and any other text as it is."""
    if name != "step":
        return text
    if _QUOTED_NUMBER.fullmatch(text):
        return text[1:-1]
    return int(text) if _NUMBER.fullmatch(text) else text
