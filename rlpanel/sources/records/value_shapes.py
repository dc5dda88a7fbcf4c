"""Reads rewards, logprobs and token arrays in the shapes of other programs: objects, pairs, lists of turns.

No total is made up: a reward that was logged as parts has a sum only if each part was logged with its weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from rlpanel.schema import Alternative
from rlpanel.sources.records.field_values import as_number, flat_turns, is_by_turn, short_repr, text_number
from rlpanel.sources.records.json_parser import to_float_array, to_python

#: Keys of a score in an object, the preferred one first.
_TOTALS = ("score", "total", "value", "reward")
#: Verdicts that are written as texts; C and I are those of Inspect's scorers.
_VERDICTS = {
    **dict.fromkeys(("correct", "pass", "passed", "success", "solved", "resolved", "yes", "c"), 1.0),
    **dict.fromkeys(("incorrect", "fail", "failed", "failure", "unsolved", "wrong", "no", "i"), 0.0),
}
#: Longer lists are not the parts of a reward.
_MAX_PARTS = 64


@dataclass(frozen=True)
class Reward:
    """A reward that was logged as an object or a list.

    Attributes
    ----------
    total : float or None
        The logged total, or the sum of parts of which each has a weight; None if there is neither.
    parts : dict of str to float
    source : str
        What of the value the total is, in words; empty if it is the value.
    """

    total: float | None
    parts: dict[str, float]
    source: str = ""


def verdict_of(text: str) -> float | None:
    """Return the number of a verdict such as ``pass`` or ``incorrect``; None for any other text."""
    return _VERDICTS.get(text.strip().lower())


def read_reward(value: Any) -> Reward:
    """Read a reward that is an object or a list.

    Parameters
    ----------
    value : dict or list
        ``{"score": 1, "acc": 0}``, ``{"acc": {"score": 1, "weight": 0.5}}``, ``[0.5]``, a list of numbers, or
        a list of ``{"name", "score", "weight"}``. A list of one number is that number.

    Raises
    ------
    ValueError
        If it holds no number, or is a list of another kind.
    """
    if not value:
        return Reward(None, {})
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], Mapping):
        return Reward(as_number(value[0]), {})
    entries = list(_entries(value))
    if isinstance(value, list) and not len(entries) == len(value) <= _MAX_PARTS:
        raise ValueError(f"is a list that is not a reward: {short_repr(value)}")
    key = _total_key(value) if isinstance(value, Mapping) else None
    total = None if key is None else as_number(value[key])
    source = f"its {key!r}" if key is not None else "its weighted parts"
    if total is None and (sums := [weight * score for _, score, weight in entries]):
        total = math.fsum(sums) if all(map(math.isfinite, sums)) else None
    if total is None and not entries:
        raise ValueError(f"is not a number: {short_repr(value)}")
    parts = {name: score for name, score, _ in entries}
    return Reward(total, parts, "its parts, without a total" if total is None else source)


def _entries(value: Any) -> Iterator[tuple[str, float, float]]:
    """Yield name, score and weight of each part; the weight is NaN if none was logged."""
    total = _total_key(value) if isinstance(value, Mapping) else None
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, part in items:
        if isinstance(part, Mapping):
            score, weight = _total(part), part.get("weight")
            if score is not None:
                yield str(part.get("name", name)), score, float(weight) if _is_number(weight) else math.nan
        elif name not in (total, "weight") and _is_number(part):
            yield str(name), float(part), math.nan


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and abs(value) < 1e300


def _total_key(value: Mapping[str, Any]) -> str | None:
    """Return the first key of a total that holds a number or a text of one."""
    for key in _TOTALS:
        try:
            if isinstance(value.get(key), (int, float, str)) and math.isfinite(as_number(value[key])):
                return key
        except ValueError:
            continue
    return None


def _total(value: Mapping[str, Any]) -> float | None:
    key = _total_key(value)
    return None if key is None else as_number(value[key])


@dataclass(frozen=True)
class ScoredTokens:
    """Tokens with their logprobs, as engines return them.

    Attributes
    ----------
    logprobs : ndarray of float64, shape (T,)
    tokens : list of str, or None
    ids : list of int, or None
        None unless each token has one.
    """

    logprobs: np.ndarray
    tokens: list[str] | None
    ids: list[int] | None


def read_scored(value: Any) -> ScoredTokens | None:
    """Read logprobs that were logged with their tokens; None for another shape.

    Parameters
    ----------
    value : dict or list
        Chat completions: ``{"content": [{"token", "logprob"}]}`` or this list. Completions:
        ``{"tokens", "token_logprobs"}``. SGLang: ``[[logprob, id, text]]``. vLLM:
        ``[{id: {"logprob", "decoded_token"}}]``, of which the sampled token is the first.
    """
    if isinstance(value, Mapping):
        if isinstance(value.get("token_logprobs"), list):
            return _columns(value["token_logprobs"], value.get("tokens"), value.get("token_ids"))
        value = value.get("content")
    if not isinstance(value, list) or not value:
        return None
    rows = list(map(_scored, value))
    if None in rows:
        return None
    logprobs, tokens, ids = zip(*(row for row in rows if row is not None), strict=True)
    return _columns(list(logprobs), list(tokens), list(ids))


_Scored = tuple[Any, Any, Any]


def _scored(item: Any) -> _Scored | None:
    """Return logprob, token and id of one token; None for another shape."""
    if isinstance(item, Mapping):
        if "logprob" in item:
            named = (item[key] for key in ("token", "decoded_token", "text") if key in item)
            return item["logprob"], next(named, None), item.get("token_id", item.get("id"))
        key, entry = next(iter(item.items()), ("", None))
        if not (str(key).isascii() and str(key).isdecimal()):
            return None
        inside = entry if isinstance(entry, Mapping) else {"logprob": entry}
        return inside.get("logprob"), inside.get("decoded_token"), int(key)
    if isinstance(item, list) and len(item) in (2, 3) and type(item[1]) is int and item[1] >= 0:
        is_scored = item[0] is None or (isinstance(item[0], (int, float)) and item[0] <= 0)
        text = item[2] if len(item) == 3 else None
        return (item[0], text, item[1]) if is_scored and not isinstance(text, (int, float)) else None
    return None


#: Most alternatives of a position that are read.
MAX_ALTERNATIVES = 20


def read_alternatives(value: Any) -> tuple[tuple[Alternative, ...], ...]:
    """Read the most probable tokens at each position, and sort them.

    Parameters
    ----------
    value : list
        For each position, the alternatives as `read_scored` reads tokens, ``{text: logprob}``,
        ``{id: {"logprob", "decoded_token"}}``, ``{"top_logprobs": [...]}`` or null.

    Raises
    ------
    ValueError
        If it is something else.
    """
    if not isinstance(value, list):
        raise ValueError("is not a list of alternatives")
    return tuple(
        tuple(sorted(_alternatives(item), key=lambda one: -one.logprob)[:MAX_ALTERNATIVES]) for item in value
    )


def _alternatives(item: Any) -> Iterator[Alternative]:
    if isinstance(item, Mapping) and isinstance(item.get("top_logprobs"), list):
        item = item["top_logprobs"]
    if isinstance(item, Mapping):
        for key, entry in item.items():
            inside = entry if isinstance(entry, Mapping) else {"logprob": entry}
            number = int(key) if key.isascii() and key.isdecimal() and isinstance(entry, Mapping) else -1
            yield _alternative(inside.get("logprob"), inside.get("decoded_token", key), number)
        return
    if item is not None and not isinstance(item, list):
        raise ValueError("is not a list of alternatives")
    for row in map(_scored, item or ()):
        if row is None:
            raise ValueError("is not a list of alternatives")
        yield _alternative(*row)


def _alternative(logprob: Any, text: Any, number: Any) -> Alternative:
    known = number if type(number) is int else -1
    value = math.nan if logprob is None else as_number(logprob)
    return Alternative(str(text) if text is not None else f"#{known}", value, known)


def _columns(logprobs: list[Any], tokens: Any, ids: Any) -> ScoredTokens:
    count = len(logprobs)
    has_texts = isinstance(tokens, list) and len(tokens) == count and all(type(t) is str for t in tokens)
    has_ids = isinstance(ids, list) and len(ids) == count and all(type(each) is int for each in ids)
    return ScoredTokens(to_float_array(logprobs), tokens if has_texts else None, ids if has_ids else None)


def read_array(value: Any) -> np.ndarray:
    """Return an array of another shape: one list per turn, or the text of a tensor.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, str):
        return _text_array(value)
    value = to_python(value)
    return to_float_array(flat_turns(value) if isinstance(value, list) and is_by_turn(value) else value)


def _text_array(text: str) -> np.ndarray:
    """Return the numbers of a text such as "tensor([0.1, 0.2])", of which nothing may be left out."""
    head, bracket, rest = text.partition("[")
    inside, closing, tail = rest.partition("]")
    if not (bracket and closing) or head not in ("", "tensor(", "array(") or "[" in inside + tail:
        raise ValueError("is not an array")
    return to_float_array([text_number(part) for part in inside.replace(",", " ").split()])


#: Label of tokens that are not trained on, where the mask holds labels.
_IGNORED = -100.0


def trained_mask(mask: np.ndarray) -> np.ndarray:
    """Return a loss mask of ones and zeros; one of labels has -100 for tokens that are not trained on."""
    ignored = mask == _IGNORED
    return (~ignored).astype(float) if ignored.any() else mask
