"""Relations of a key with other keys and with the file's name: a prediction and its truth, one of several classes.

Names of papers differ, but they are made alike: ``city_prediction`` is about ``city``, ``model_output_verdict``
is about ``model_output``, and of the texts of several models the file's name says whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import plain_name
from rlpanel.sources.inference.column_values import LONG
from rlpanel.sources.inference.key_values import KeyValues
from rlpanel.sources.inference.model_names import models_in

#: Words of a key that say that a text was predicted.
_PREDICTED = frozenset({"prediction", "predicted", "pred", "preds", "predictions", "predict"})
#: Fewest words of a beginning that several keys share.
_SHARED_WORDS = 2


def predicted_key(key: str, columns: Mapping[str, KeyValues]) -> str:
    """Return the key whose values a key predicts: ``city`` of ``city_prediction``; empty without one."""
    outer, dot, name = key.rpartition(".")
    words = plain_name(name).split("_")
    stem = "_".join(word for word in words if word not in _PREDICTED)
    if not stem or len(stem.split("_")) == len(words):
        return ""
    return next((each for each in columns if plain_name(each) == plain_name(f"{outer}{dot}{stem}")), "")


def is_of_other_model(key: str, name: str) -> bool:
    """Return True for a key that names a model, in a file whose name has another one."""
    models, named = models_in(key), models_in(name)
    return bool(models) and bool(named) and models.isdisjoint(named)


def is_of_other_text(key: str, answer: str, columns: Mapping[str, KeyValues]) -> bool:
    """Return True for a verdict on another text than the response, by the words with which both keys begin."""
    words = plain_name(key).split("_")
    begin = "_".join(words[:_SHARED_WORDS])
    if "." in key or len(words) <= _SHARED_WORDS or plain_name(answer).startswith(begin):
        return False
    return any(
        "." not in each and plain_name(each).startswith(f"{begin}_") and _has_long_texts(column)
        for each, column in columns.items()
        if each != key
    )


def are_classes(columns: Iterable[KeyValues]) -> bool:
    """Return True for numbers of which exactly one is 1 in each record, and the others 0: a class, no reward."""
    values = [column.values for column in columns]
    if len(values) < 2 or len({len(each) for each in values}) > 1 or len(values[0]) < 2:
        return False
    if not all(each in (0, 1) for column in values for each in column if not isinstance(each, list)):
        return False
    is_one = all(sum(map(int, record)) == 1 for record in zip(*values, strict=True) if _are_plain(record))
    return is_one and all(map(_are_plain, zip(*values, strict=True)))


def holds_question(text: KeyValues, question: KeyValues) -> bool:
    """Return True if each text has the record's question in it, and more around it."""
    if len(text.values) != len(question.values):
        return False
    pairs = zip(text.values, question.values, strict=True)
    return all(
        isinstance(each, str)
        and isinstance(asked, str)
        and bool(asked.strip())
        and asked.strip() in each
        and len(each.strip()) > len(asked.strip())
        for each, asked in pairs
    )


def _are_plain(values: Iterable[object]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _has_long_texts(column: KeyValues) -> bool:
    texts = [" ".join(map(str, content.items_of(value))) for value in column.values]
    return 2 * sum(len(text) > LONG // 2 for text in texts) > len(texts)
