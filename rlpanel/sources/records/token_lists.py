"""Lists of a line by token: numbers that no field describes, and experts of a mixture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.json_parser import LISTS, to_float_array, to_python

# -- token lists ---------------------------------------------------------------------------------------
# Finds the lists of a line that hold one number per token and that no field of the schema describes.
#
# A trainer may log any array beside the fields that rlpanel knows, also inside an object: ``token_data.x``. A
# list counts as one if it is as long as the tokens and its items are numbers, booleans or null.


#: Objects in objects that are searched, and most keys of an object that is.
_DEPTH, _MAX_KEYS = 3, 64
_ITEMS = frozenset({int, float, bool, type(None)})


def number_lists(key: str, value: Any, depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield the lists of numbers that a value is or holds, by their dotted names; empty ones are left out.

    Parameters
    ----------
    key : str
    value : list or mapping
        May be lazy (see `json_parser`). An object with more than 64 keys is not searched.
    depth : int
        Levels of objects to search.
    """
    if type(value) in LISTS:
        if len(value) and type(value[0]) in _ITEMS:
            yield key, value
    elif depth and hasattr(value, "items") and len(value) <= _MAX_KEYS:
        for inner, item in value.items():
            if type(item) in LISTS or hasattr(item, "items"):
                yield from number_lists(f"{key}.{inner}", item, depth - 1)


def holds_token_list(value: Any, tokens: int) -> bool:
    """Return True if a lazy value, or null, is or holds a list of numbers as long as the tokens."""
    if type(value) in LISTS:
        return len(value) == tokens and type(value[0]) in _ITEMS
    if value is None or len(value.mini) < 2 * tokens:  # the JSON is too short for such a list
        return False
    return any(len(found) == tokens for _, found in number_lists("", value))


def is_of_prompt(name: str) -> bool:
    """Return True for a key about the prompt, whose tokens may be as many as the response's by chance."""
    return name.startswith("prompt")


def take_token_lists(
    others: Iterable[tuple[str, Any]], tokens: int, arrays: dict[str, np.ndarray], *, full: bool
) -> dict[str, int]:
    """Add the lists that are as long as the tokens to a sample's arrays; return the lengths of the others.

    Parameters
    ----------
    others : pairs of key and value
        Lists and objects, without those of fields.
    tokens : int
    arrays : dict of str to ndarray
        Names that it has already are kept.
    full : bool
        Whether to tell whole numbers and booleans from other numbers, by the type of the array.

    Returns
    -------
    dict of str to int
    """
    unfit: dict[str, int] = {}
    for key, value in others:
        for name, items in number_lists(key, value):
            if len(name) > LABEL_MAX or "\0" in name or name in arrays or is_of_prompt(name):
                continue
            if len(items) != tokens:
                unfit[name] = len(items)
                continue
            try:
                arrays[name] = _typed(items) if full else to_float_array(items)
            except ValueError:  # a text or an object among the numbers
                continue
    return unfit


def _typed(items: Any) -> np.ndarray:
    """Return whole numbers as int64 and booleans as bool, unless some are missing; others as float64."""
    kinds = set(map(type, to_python(items)))
    values = to_float_array(items)
    if kinds == {bool}:
        return values.astype(bool)
    return values.astype(np.int64) if kinds == {int} and np.abs(values).max() < 2**53 else values


def whole_numbers(array: np.ndarray) -> bool:
    """Return True if an array was logged as whole numbers or booleans."""
    return array.dtype.kind in "bi"


# -- expert ids ----------------------------------------------------------------------------------------
# Experts of a mixture-of-experts model by token: ids by layer, and where trainer and engine chose others.
#
# Trainers that replay the engine's routing keep them as one list of layers for each token, and in each layer
# the ids of the chosen experts (SGLang's ``routed_experts``, verl's and slime's rollout routing replay).


#: Fields of the schema, the trainer's first.
EXPERTS = ("experts", "rollout_experts")


def expert_ids(value: Any) -> np.ndarray:
    """Return the ids of experts, shape (T, layers, experts of a token); a layer may be missing as -1.

    Parameters
    ----------
    value : list
        For each token a list of layers with lists of ids; without layers, there is one layer.

    Raises
    ------
    ValueError
        If layers or tokens have different numbers of experts, or an id is not a whole number.
    """
    try:
        found = np.array(to_python(value))
    except ValueError as error:
        raise ValueError("has tokens or layers with different numbers of experts") from error
    if found.ndim not in (2, 3) or found.dtype.kind not in "iu" or not found.size:
        raise ValueError("holds no list of experts' ids for each layer of each token")
    return (found[:, None, :] if found.ndim == 2 else found).astype(np.int32)


def routing_mismatch(trainer: np.ndarray, engine: np.ndarray) -> np.ndarray:
    """Return the share of layers in which the set of experts differs, shape (T,).

    Layers with an id below 0 on one side are not known and do not count; NaN without a known layer.
    """
    known = (trainer >= 0).all(-1) & (engine >= 0).all(-1)
    differs = (np.sort(trainer, -1) != np.sort(engine, -1)).any(-1) & known
    with np.errstate(invalid="ignore"):
        return np.asarray(differs.sum(-1) / np.where(known.any(-1), known.sum(-1), np.nan))
