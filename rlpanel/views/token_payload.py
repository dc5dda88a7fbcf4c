"""Pack a sample for the token view: a small description and bytes, nothing sent twice.

Read by ``tokens_data.js``. Texts are UTF-8 ended by 0xFF, a byte UTF-8 never uses; values are float32,
little-endian, row after row. A row that repeats another, is its negative, or holds one number, takes
no bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlpanel.metrics import registry
from rlpanel.schema import Sample
from rlpanel.views.token_rows import Row, build_rows
from rlpanel.views.token_text import TokenText, decode, reveal

SEPARATOR = b"\xff"
_NOT_METRICS = {"response_token_ids", "loss_mask"}


def pack(sample: Sample | None, *, pad_token: str = "", kl_estimator: str = "kl_k3") -> dict[str, Any]:
    """What the browser needs to draw ``sample``.

    Parameters
    ----------
    sample : Sample or None
    pad_token : str
        Tokens equal to it are greyed.
    kl_estimator : str
        The KL row to show.

    Returns
    -------
    dict
        ``state`` is ``tokens``, ``places`` (values but no token texts), ``text`` (neither) or ``empty``.
    """
    if sample is None:
        return {"state": "empty", "plain": "Choose a sample to read its tokens."}
    tokens = sample.response_tokens or None
    arrays = {name: array for name, array in sample.arrays().items() if name not in _NOT_METRICS}
    rows, notes = build_rows(arrays, None if tokens is None else len(tokens), kl_estimator)
    ids = sample.response_token_ids
    cells = max([len(tokens or ()), 0 if ids is None else len(ids), *(len(row.values) for row in rows)])
    if not cells:
        return _plain(sample)
    packed: dict[str, Any] = {"state": "places", "cells": cells, "tokens": 0}
    if tokens is not None:
        shown = decode(tokens, pad_token)
        packed |= {"state": "tokens", "tokens": len(tokens)} | _pack_texts(tokens, shown)
        notes += _text_notes(shown)
    else:
        notes.append("Token texts are not logged; a cell is a place in the response.")
    if not rows:
        notes.append("No token values are logged: no logprobs, rewards, values or advantages.")
    if ids is not None:
        packed["ids"] = np.nan_to_num(ids, nan=-1).astype("<i4").tobytes()
    return packed | _pack_rows(rows) | {"notes": notes}


def declarations() -> dict[str, dict[str, str]]:
    """What each token metric declares, by name: label, unit, scale, color, help."""
    return {
        m.name: {"label": m.label, "unit": m.unit, "scale": m.scale, "color": m.color, "help": m.help}
        for m in registry.of_level("token")
    }


def _plain(sample: Sample) -> dict[str, Any]:
    """A sample with nothing to tell token by token."""
    text = reveal(sample.response or "")
    notes = ["Neither tokens nor token values are logged for this sample."]
    return {"state": "text", "plain": text, "notes": notes if text else [*notes, "The response is empty."]}


def _pack_texts(tokens: Sequence[str], shown: TokenText) -> dict[str, bytes]:
    packed = {"texts": _join(shown.texts), "kinds": shown.kinds.tobytes()}
    raws = ["" if token == text else reveal(token) for token, text in zip(tokens, shown.texts, strict=True)]
    return packed | {"raws": _join(raws)} if any(raws) else packed


def _join(texts: Iterable[str]) -> bytes:
    return b"".join(text.encode("utf-8", "replace") + SEPARATOR for text in texts)


def _text_notes(shown: TokenText) -> list[str]:
    if not shown.replaced:
        return []
    return [f"{shown.replaced} × \N{REPLACEMENT CHARACTER}: bytes that are no character"]


def _pack_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """The rows' values end to end, and column by column what is known of them.

    What a metric declares went to the browser once, see `declarations`.
    """
    blocks: list[np.ndarray] = []
    places: dict[bytes, tuple[int, int]] = {}
    at, sign, size = [], [], 0
    for row in rows:
        place = (-1, 1)
        if not _is_constant(row.values):
            if row.values.tobytes() not in places:
                places[(-row.values).tobytes()] = (size, -1)
                places[row.values.tobytes()] = (size, 1)
                blocks.append(row.values)
                size += len(row.values)
            place = places[row.values.tobytes()]
        at.append(place[0])
        sign.append(place[1])
    columns = {
        "name": [row.name for row in rows],
        "at": at,
        "sign": sign,
        "size": [len(row.values) for row in rows],
        "constant": [float(row.values[0]) for row in rows],
        "outlier": [row.outlier for row in rows],
        "flip": [row.flip for row in rows],
        "digits": [row.digits for row in rows],
        "short": [row.short for row in rows],
        "note": [row.note for row in rows],
    }
    for name in ("lo", "hi", "least", "most", "center"):
        columns[name] = [float(f"{getattr(row, name):.6g}") for row in rows]
    floats = np.concatenate(blocks).astype("<f4").tobytes() if blocks else b""
    return {"rows": columns, "values": floats}


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all() or np.isnan(values).all())
