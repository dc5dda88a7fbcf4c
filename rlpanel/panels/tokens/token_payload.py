"""Pack a sample for the token view: a small description and bytes, nothing sent twice.

Read by ``tokens_data.js``. Texts are UTF-8 ended by 0xFF, a byte UTF-8 never uses. Log-probabilities go
without loss, and the browser computes from them what follows from them (``tokens_formulas.js``). Other
values are float32, little-endian, row after row; a row that repeats another or holds one number takes no
bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.panels.tokens.display_text import TokenText, decode, reveal, spell
from rlpanel.panels.tokens.metric_rows import DERIVED, MetricRow, build_rows, scale_of
from rlpanel.schema import Sample

SEPARATOR = b"\xff"
_NOT_METRICS = {"response_token_ids", "loss_mask"}

#: Logs of six decimals are whole numbers of these; the ends of int32 stand for NaN and the infinities.
MICRO = 1_000_000
_NAN, _LOWEST, _HIGHEST = -(2**31), -(2**31) + 1, 2**31 - 1
#: In the place of a row's values: one number for all, or computed by the browser.
_CONSTANT, _COMPUTED = -1, -2


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
    elif ids is not None:
        notes.append("Token texts are not logged, #id is shown; --tokenizer tokenizer.json gives them.")
    else:
        notes.append("Token texts are not logged; a cell is a place in the response.")
    if not rows:
        notes.append("No token values are logged: no logprobs, rewards, values or advantages.")
    if ids is not None:
        packed["ids"] = np.nan_to_num(ids, nan=-1).astype("<i4").tobytes()
    outside, said = _outside(sample.loss_mask, cells)
    packed |= outside
    return packed | _pack_rows(rows, arrays) | {"notes": notes + said}


def declarations() -> dict[str, dict[str, Any]]:
    """What each token metric declares, by name: label, unit, scale, color, tip, needs."""
    names = ("label", "unit", "color", "tip")
    return {
        m.name: {name: getattr(column_info.describe(m.name), name) for name in names}
        | {"scale": scale_of(m), "needs": list(m.needs)}
        for m in column_info.shown()
        if m.level == "token"
    }


def lossless(values: np.ndarray) -> dict[str, Any]:
    """The shortest of three forms from which the browser has the very numbers again.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)

    Returns
    -------
    dict
        ``type`` is ``micro`` (int32, millionths), ``f4`` or ``f8``; ``data`` the bytes, little-endian.
    """
    finite = np.isfinite(values)
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
        whole = np.rint(np.where(finite, values, 0.0) * MICRO)
    if (np.abs(whole) < _HIGHEST).all() and (whole[finite] / MICRO == values[finite]).all():
        marks = np.select([finite, np.isnan(values), values < 0], [whole, _NAN, _LOWEST], _HIGHEST)
        return {"type": "micro", "data": marks.astype("<i4").tobytes()}
    if (single[finite] == values[finite]).all():
        return {"type": "f4", "data": single.tobytes()}
    return {"type": "f8", "data": values.astype("<f8").tobytes()}


def _outside(mask: np.ndarray | None, cells: int) -> tuple[dict[str, bytes], list[str]]:
    """Which tokens took no part in the loss, a bit each, and a note; nothing where all took part."""
    if mask is None:
        return {}, []
    if len(mask) != cells:
        return {}, [f"loss mask not shown: {len(mask)} values for {cells} tokens"]
    out = mask == 0
    if not out.any():
        return {}, []
    said = f"{int(out.sum()):,} of {cells:,} tokens took no part in the loss"
    return {"outside": np.packbits(out, bitorder="little").tobytes()}, [said]


def _plain(sample: Sample) -> dict[str, Any]:
    """A sample with nothing to tell token by token."""
    text = reveal(sample.response or "")
    notes = ["Neither tokens nor token values are logged for this sample."]
    return {"state": "text", "plain": text, "notes": notes if text else [*notes, "The response is empty."]}


def _pack_texts(tokens: Sequence[str], shown: TokenText) -> dict[str, Any]:
    """Texts and kinds; the raw pieces only where the text does not tell them."""
    packed: dict[str, Any] = {"texts": _join(shown.texts), "kinds": shown.kinds.tobytes()}
    spelled = (spell(text, shown.encoding) for text in shown.texts)
    raws = ["" if token == usual else reveal(token) for token, usual in zip(tokens, spelled, strict=True)]
    packed["encoding"] = shown.encoding
    return packed | {"raws": _join(raws)} if any(raws) else packed


def _join(texts: Iterable[str]) -> bytes:
    return b"".join(text.encode("utf-8", "replace") + SEPARATOR for text in texts)


def _text_notes(shown: TokenText) -> list[str]:
    if not shown.replaced:
        return []
    return [f"{shown.replaced} × \N{REPLACEMENT CHARACTER}: bytes that are no character"]


def _pack_rows(rows: Sequence[MetricRow], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The rows' values end to end, and column by column what is known of them.

    What a metric declares went to the browser once, see `declarations`.
    """
    blocks: list[np.ndarray] = []
    places: dict[bytes, int] = {}
    at, size = [], 0
    for row in rows:
        place = _CONSTANT
        if row.name in DERIVED:
            place = _COMPUTED
        elif not _is_constant(row.values):
            place = places.setdefault(row.values.tobytes(), size)
            if place == size:
                blocks.append(row.values)
                size += len(row.values)
        at.append(place)
    columns = {
        "name": [row.name for row in rows],
        "at": at,
        "size": [len(row.values) for row in rows],
        "constant": [float(row.values[0]) for row in rows],
        "around": [row.around for row in rows],
        "flip": [row.flip for row in rows],
        "digits": [row.digits for row in rows],
        "short": [row.short for row in rows],
        "note": [row.note for row in rows],
    }
    for name in ("lo", "hi", "least", "most", "center"):
        columns[name] = [float(f"{getattr(row, name):.6g}") for row in rows]
    floats = np.concatenate(blocks).astype("<f4").tobytes() if blocks else b""
    needed = dict.fromkeys(
        need for row in rows if row.name in DERIVED for need in column_info.get(row.name).needs
    )
    return {"rows": columns, "values": floats, "inputs": {need: lossless(arrays[need]) for need in needed}}


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all() or np.isnan(values).all())
