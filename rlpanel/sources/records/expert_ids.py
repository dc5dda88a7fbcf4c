"""Experts of a mixture-of-experts model by token: ids by layer, and where trainer and engine chose others.

Trainers that replay the engine's routing keep them as one list of layers for each token, and in each layer
the ids of the chosen experts (SGLang's ``routed_experts``, verl's and slime's rollout routing replay).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpanel.sources.records.json_parser import to_python

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
