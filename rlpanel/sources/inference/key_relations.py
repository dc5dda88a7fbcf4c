"""Relations of a key with other keys and with the file's name: a prediction and its truth, a class.

Names differ, but they are made alike: ``city_prediction`` is about ``city``, ``model_output_verdict``
is about ``model_output``, and of the texts of several models the file's name says whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import models_in, plain_name
from rlpanel.sources.inference.column_values import LONG, KeyValues

#: Words of a key that say that a text was predicted.
_PREDICTED = frozenset({"prediction", "predicted", "pred", "preds", "predictions", "predict"})
#: Fewest words of a beginning that several keys share.
_SHARED_WORDS = 2

#: Words of a key that say whose text it is: the policy's, and the right one.
_OF_POLICY = frozenset({"model", "agent", "llm", "policy", "generated", "gen", *_PREDICTED})
_OF_TRUTH = ("best", "gold", "true", "correct", "expected", "target", "reference", "golden", "gt")


def paired_truth(key: str, columns: Mapping[str, KeyValues]) -> str:
    """Return the key with the right text beside a policy's: ``best_move`` for ``model_move``; or empty."""
    outer, dot, name = key.rpartition(".")
    words = plain_name(name).split("_")
    if len(words) < 2 or words[0] not in _OF_POLICY:
        return ""
    stem = "_".join(words[1:])
    known = {plain_name(each): each for each in columns}
    names = (f"{outer}{dot}{truth}_{stem}" for truth in _OF_TRUTH)
    return next((known[each] for each in map(plain_name, names) if each in known), "")


def agree(verdict: KeyValues, answer: KeyValues, truth: KeyValues) -> bool:
    """Return True for verdicts that are true where the answer is the right one, and only there."""
    values = (verdict.values, answer.values, truth.values)
    if len({len(each) for each in values}) > 1:
        return False
    seen = [(right, said == true) for right, said, true in zip(*values, strict=True)]
    both = len({is_same for _, is_same in seen}) == 2
    return both and all(right in (0, 1) and right == is_same for right, is_same in seen)


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
    """Return True for a verdict on another text than the response, by the words at the keys' beginning."""
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
    """Return True for numbers of which one is 1 in each record, and the others are 0: a class, no reward."""
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
