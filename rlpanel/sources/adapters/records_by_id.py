"""Samples that a document keeps by id: ``{"t1": "text"}``, or several such objects with the same ids.

A line may hold one of them: its only key is the question. Programs write texts so (``{id: [generations]}``),
with verdicts under the same ids beside them. The function `arrange_by_id` gives one record for each id, below
the key ``by_id``, and `arrange_question` gives a line's question and steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.sources.records.json_parser import to_python

#: Key of the records that are made, and the part of a mapped key that leads to them.
BY_ID = "by_id"
PREFIX = f"{BY_ID}.*."
#: Key of a record's question and steps, and the part of a mapped key that leads to them.
BY_QUESTION = "by_question"
QUESTION_PREFIX = f"{BY_QUESTION}."
#: Fewest ids, and fewest words of an id that is a question.
_MIN_IDS, _PROMPT_WORDS = 2, 4
#: Share of an object's ids that another one must have.
_SHARED = 0.9


def arrange_by_id(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with one record for each id; None if it does not keep texts by id.

    A record has ``id``, or ``prompt`` if the ids are questions, and the value of each object under the
    object's key, or ``response`` if the document itself is the object.
    """
    if len(document) >= _MIN_IDS and not any(hasattr(value, "keys") for value in document.values()):
        values = {key: to_python(value) for key, value in document.items()}
        return {BY_ID: _records({"response": values})} if _holds_texts(values) else None
    values = {key: to_python(value) for key, value in document.items()}
    objects = {key: each for key, each in values.items() if isinstance(each, dict) and _is_flat(each)}
    first = next((key for key, each in objects.items() if _holds_texts(each)), None)
    if first is None:
        return None
    ids = objects[first].keys()
    alike = {
        key: each
        for key, each in objects.items()
        if len(ids & each.keys()) >= _SHARED * len(ids | each.keys())
    }
    others = {key: each for key, each in values.items() if key not in alike}
    are_texts = len(alike) > 1 and all(map(_holds_texts, alike.values()))
    if are_texts and not any("generation" in key for key in alike):
        return {**others, BY_ID: _records_of_models(alike)}
    return {**others, BY_ID: _records(alike)}


def arrange_question(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a record whose only key is the question, with it as a text; None for any other record.

    Under the key is a list of objects, such as the steps to the answer.
    """
    if len(document) != 1:
        return None
    ((question, value),) = document.items()
    steps = to_python(value) if len(question.split()) >= _PROMPT_WORDS else None
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        return None
    return {BY_QUESTION: {"prompt": question, "steps": steps}}


def _records(objects: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    ids = list(dict.fromkeys(each for values in objects.values() for each in values))
    asked = sum(len(each.split()) >= _PROMPT_WORDS for each in ids) > len(ids) // 2
    name = "prompt" if asked else "id"
    return [
        {name: each} | {key: values[each] for key, values in objects.items() if each in values}
        for each in ids
    ]


def _records_of_models(objects: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a record for each text of each model, which the objects' keys name."""
    return [
        {"id": each, "model": model, "response": text}
        for model, values in objects.items()
        for each, text in values.items()
    ]


def _is_flat(values: Mapping[str, Any]) -> bool:
    """Return True for an object of several texts and numbers, or of lists of such."""
    return len(values) >= _MIN_IDS and all(_is_plain(value) for value in values.values())


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and not any(isinstance(item, (dict, list)) for item in value)
    return not isinstance(value, dict)


def _holds_texts(values: Mapping[str, Any]) -> bool:
    """Return True if all values are texts, or all are lists of texts. Some texts may be blank."""
    lists = [value for value in values.values() if isinstance(value, list)]
    texts = [item for value in lists for item in value] or list(values.values())
    is_same = not lists or len(lists) == len(values)
    return (
        len(values) >= _MIN_IDS and is_same and bool(texts) and all(isinstance(each, str) for each in texts)
    )
