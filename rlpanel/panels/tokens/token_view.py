"""The token view of one response, and what it sends to the browser.

Token view: the response as text coloured by a token metric, above a heatmap of all token metrics.

A JSComponent draws it with the scripts in this folder. The server sends each sample in one message.
Changes of metric, token and theme, hover and search are then handled in the browser.

Packs a sample into the binary payload of the token view.

``payload.js`` reads it. Texts are UTF-8, each terminated by 0xFF, a byte that UTF-8 never uses.
Log-probabilities are sent without loss; the browser derives the metrics that depend on them
(``formulas.js``). Other values are little-endian float32, row after row. A row that equals another row or
holds a single value takes no bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param

from rlpanel.board_url import SCALES
from rlpanel.metrics.engine import column_info
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import current_language, tr
from rlpanel.panels.tokens.metric_rows import DERIVED, KL_ESTIMATORS, SURE, MetricRow, sample_rows, scale_of
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import Sample
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.store.snapshot.token_scales import ARRAY_RULE, Scale, scale_rule, token_scales
from rlpanel.texts.display_text import TokenText, decode, escape_invisible, spell

SEPARATOR = b"\xff"
_Scales = Mapping[str, Mapping[str, Scale]]
_NOT_METRICS = {"response_token_ids", "loss_mask"}

#: Values with up to six decimals are sent as int32 multiples of 1e-6. The extremes of int32 encode NaN and
#: the infinities.
MICRO = 1_000_000
_NAN, _LOWEST, _HIGHEST = -(2**31), -(2**31) + 1, 2**31 - 1
#: Codes used instead of a row's offset: one value for all tokens, or computed in the browser.
_CONSTANT, _COMPUTED = -1, -2


def pack_sample(sample: Sample | None, *, pad_token: str = "", kl_estimator: str = "kl_k3") -> dict[str, Any]:
    """Return the payload that the browser draws ``sample`` from.

    Parameters
    ----------
    sample : Sample or None
    pad_token : str
        Tokens equal to it are drawn in grey.
    kl_estimator : str
        Estimator of the KL row.

    Returns
    -------
    dict
        ``state`` is ``tokens``, ``positions`` (values or ids without token texts), ``text`` (neither) or
        ``empty`` (no sample). ``plain`` is a text to show instead of tokens.
    """
    if sample is None:
        return {"state": "empty", "plain": tr("No sample is shown: choose one in the grid.")}
    tokens = sample.response_tokens or None
    arrays = {name: array for name, array in sample.arrays().items() if name not in _NOT_METRICS}
    rows, notes = sample_rows(sample, None if tokens is None else len(tokens), kl_estimator)
    ids = sample.response_token_ids
    cells = max([len(tokens or ()), 0 if ids is None else len(ids), *(len(row.values) for row in rows)])
    if not cells:
        return _plain(sample)
    packed: dict[str, Any] = {"state": "positions", "cells": cells, "tokens": 0}
    if tokens is not None:
        decoded = decoded_tokens(sample, pad_token)
        packed |= {"state": "tokens", "tokens": len(tokens)} | _pack_texts(tokens, decoded)
        notes += _text_notes(decoded)
    else:
        packed["plain"] = escape_invisible(sample.response or "")
        notes.append(_missing_texts(sample))
    if not (arrays or sample.token_arrays):
        notes.append(tr("No token values are logged: no logprobs, rewards, values or advantages."))
    if ids is not None:
        usable = (ids >= 0) & (ids < 2**31)  # others, and NaN for null, are sent as -1
        packed["ids"] = np.where(usable, ids, -1).astype("<i4").tobytes()
    if sample.top_logprobs:
        packed["alternatives"] = _pack_alternatives(sample)
        notes += _alternative_notes(sample, cells)
    masked, mask_notes = _pack_loss_mask(sample.loss_mask, cells)
    packed |= masked
    return packed | _pack_rows(rows, arrays) | {"notes": notes + mask_notes}


def decoded_tokens(sample: Sample, pad_token: str = "") -> TokenText:
    """Return the display texts of a sample's tokens; computed once for all views of it."""
    tokens = sample.response_tokens or []
    make = partial(decode, tokens, pad_token, sample.response, sample.loss_mask)
    return cached_on(sample, "decoded", pad_token, make, most=1)


def metric_declarations() -> dict[str, dict[str, Any]]:
    """Return the declaration of each token metric by name: label, unit, tip, colours, inputs."""
    names = ("label", "unit", "color", "tip")
    return {
        m.name: {name: getattr(described(m.name), name) for name in names}
        | {"scale": scale_of(m), "needs": list(m.needs), "rule": scale_rule(m.name), "sure": m.name in SURE}
        for m in column_info.visible_metrics()
        if m.level == "token"
    }


def sample_scales(snapshot: Snapshot, sample: Sample | None) -> dict[str, dict[str, Scale]]:
    """Return the colour scales that a sample may be drawn with: those of its run and of its step."""
    if sample is None:
        return {}
    make = partial(token_scales, snapshot)
    return {
        "run": cached_on(snapshot, "token scales", None, make),
        "step": cached_on(snapshot, "token scales", sample.step, partial(make, sample.step)),
    }


def widest(one: _Scales, other: _Scales) -> dict[str, dict[str, Scale]]:
    """Return scales that serve two samples, so that equal values have equal colours in both."""
    return {
        kind: {
            name: (min(ends[0], second[0]), max(ends[1], second[1]))
            for name, ends in scales.items()
            for second in [other.get(kind, {}).get(name, ends)]
        }
        | {name: ends for name, ends in other.get(kind, {}).items() if name not in scales}
        for kind, scales in one.items()
    }


def lossless(values: np.ndarray) -> dict[str, Any]:
    """Encode an array without loss in the shortest of three number formats.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)

    Returns
    -------
    dict
        ``type`` is ``micro`` (int32 multiples of 1e-6), ``f4`` or ``f8``; ``data`` holds the little-endian
        bytes.
    """
    finite = np.isfinite(values)
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
        whole = np.rint(np.where(finite, values, 0.0) * MICRO)
    if (np.abs(whole) < _HIGHEST).all() and (whole[finite] / MICRO == values[finite]).all():
        codes = np.select([finite, np.isnan(values), values < 0], [whole, _NAN, _LOWEST], _HIGHEST)
        return {"type": "micro", "data": codes.astype("<i4").tobytes()}
    if (single[finite] == values[finite]).all():
        return {"type": "f4", "data": single.tobytes()}
    return {"type": "f8", "data": values.astype("<f8").tobytes()}


def _pack_loss_mask(mask: np.ndarray | None, cells: int) -> tuple[dict[str, bytes], list[str]]:
    """Return one bit per token, set if the loss mask excludes it, and a note; empty if it excludes none."""
    if mask is None:
        return {}, []
    if len(mask) != cells:
        return {}, [
            tr("Loss mask not shown: {values} values for {tokens} tokens.", values=len(mask), tokens=cells)
        ]
    masked = mask == 0
    if not masked.any():
        return {}, []
    note = tr(
        "{masked:,} of {tokens:,} tokens are masked from the loss.", masked=int(masked.sum()), tokens=cells
    )
    return {"outside": np.packbits(masked, bitorder="little").tobytes()}, [note]


#: Alternatives of a position that the browser gets.
_SHOWN_ALTERNATIVES = 8


def _pack_alternatives(sample: Sample) -> list[list[Any]]:
    """Return the alternatives of each position, after the rank of the sampled token, 0 if unknown."""
    tokens, ids = sample.response_tokens or (), sample.response_token_ids
    packed: list[list[Any]] = []
    for at, found in enumerate(sample.top_logprobs):
        token = tokens[at] if at < len(tokens) else None
        number = int(ids[at]) if ids is not None and at < len(ids) and ids[at] >= 0 else None
        same = (
            one.id == number if number is not None and one.id >= 0 else one.text == token for one in found
        )
        rank = next((place for place, is_same in enumerate(same, start=1) if is_same), 0)
        shown = [
            [escape_invisible(one.text), None if np.isnan(one.logprob) else one.logprob]
            for one in found[:_SHOWN_ALTERNATIVES]
        ]
        packed.append([rank, *shown])
    return packed


def _alternative_notes(sample: Sample, cells: int) -> list[str]:
    count = len(sample.top_logprobs)
    text = tr("Alternatives at {values} positions for {tokens} tokens.", values=count, tokens=cells)
    return [] if count == cells else [text]


def _plain(sample: Sample) -> dict[str, Any]:
    """Return the payload of a sample without tokens and token values: its response as text."""
    text = escape_invisible(sample.response or "")
    notes = [tr("This sample has no tokens: log response_tokens, and logprobs or values, one per token.")]
    return {
        "state": "text",
        "plain": text,
        "notes": notes if text else [*notes, tr("The response is empty.")],
    }


def _missing_texts(sample: Sample) -> str:
    """Return the note for a sample without token texts."""
    if sample.response_token_ids is None:
        return tr("Token texts are not logged: tokens have indices.")
    return tr("Token texts are not logged, only ids: serve with --tokenizer tokenizer.json to see texts.")


def _pack_texts(tokens: Sequence[str], decoded: TokenText) -> dict[str, Any]:
    """Pack texts and kinds, and the raw tokens that cannot be derived from their texts."""
    packed: dict[str, Any] = {"texts": _join(decoded.texts), "kinds": decoded.kinds.tobytes()}
    usual_tokens = (spell(text, decoded.encoding) for text in decoded.texts)
    raws = [
        "" if token == usual else escape_invisible(token)
        for token, usual in zip(tokens, usual_tokens, strict=True)
    ]
    packed["encoding"] = decoded.encoding
    return packed | {"raws": _join(raws)} if any(raws) else packed


def _join(texts: Iterable[str]) -> bytes:
    return b"".join(text.encode("utf-8", "replace") + SEPARATOR for text in texts)


def _text_notes(decoded: TokenText) -> list[str]:
    if not decoded.replaced:
        return []
    return [tr("{replaced} × �: invalid UTF-8 bytes.", replaced=decoded.replaced)]


def _pack_rows(rows: Sequence[MetricRow], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Pack the values of all rows, and the other attributes of the rows column by column.

    Declarations of metrics are not included; the browser has them already (see `metric_declarations`).
    """
    blocks: list[np.ndarray] = []
    offset_of: dict[bytes, int] = {}
    offsets, size = [], 0
    for row in rows:
        offset = _CONSTANT
        if row.name in DERIVED:
            offset = _COMPUTED
        elif not _is_constant(row.values):
            offset = offset_of.setdefault(row.values.tobytes(), size)
            if offset == size:
                blocks.append(row.values)
                size += len(row.values)
        offsets.append(offset)
    columns = {
        "name": [row.name for row in rows],
        "at": offsets,
        "size": [len(row.values) for row in rows],
        "constant": [float(row.values[0]) for row in rows],
        "around": [row.around for row in rows],
        "flip": [row.flip for row in rows],
        "digits": [row.digits for row in rows],
        "short": [row.short for row in rows],
        "note": [row.note for row in rows],
    }
    if any(row.label for row in rows):
        columns["logged"] = [list_declaration(row) if row.label else None for row in rows]
    for name in ("lo", "hi", "least", "most", "center"):
        columns[name] = [float(f"{getattr(row, name):.6g}") for row in rows]
    floats = np.concatenate(blocks).astype("<f4").tobytes() if blocks else b""
    inputs = dict.fromkeys(
        need for row in rows if row.name in DERIVED for need in column_info.get(row.name).needs
    )
    return {"rows": columns, "values": floats, "inputs": {name: lossless(arrays[name]) for name in inputs}}


def list_declaration(row: MetricRow) -> dict[str, Any]:
    """Return what `metric_declarations` has for a metric, of an undeclared list."""
    return {
        "label": row.label,
        "tip": row.tip,
        "unit": "",
        "color": "muted",
        "scale": row.scale,
        "rule": ARRAY_RULE,
        "categories": [list(category) for category in row.categories],
    }


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all() or np.isnan(values).all())


# Joined into one JavaScript module, in this order; the last file exports ``render``.
_SCRIPTS = (
    "panels/ui/dom.js",
    "panels/tokens/formulas.js",
    "panels/tokens/payload.js",
    "panels/tokens/color_scale.js",
    "panels/tokens/running_text.js",
    "panels/tokens/line_chart.js",
    "panels/tokens/heatmap_strip.js",
    "panels/tokens/row_picker.js",
    "panels/tokens/tooltip.js",
    "panels/tokens/toolbar.js",
    "panels/tokens/outliers.js",
    "panels/tokens/find.js",
    "panels/tokens/token_view.js",
)


def token_theme() -> str:
    """Return the theme as CSS variables of the view itself: a notebook has no page that defines them."""
    sheets = {
        ".rl-tokens": theme.LIGHT | _categories(dark=False) | {"font": theme.FONT, "mono": theme.MONO},
        ".rl-tokens.dark": theme.DARK | _categories(dark=True),
    }
    return (
        "\n".join(
            f"{selector} {{ {' '.join(f'--rl-{name}: {value};' for name, value in values.items())} }}"
            for selector, values in sheets.items()
        )
        + theme.TARGETS
    )


def _categories(*, dark: bool) -> dict[str, str]:
    return {f"category{at}": color for at, color in enumerate(theme.CATEGORIES[dark])}


class TokenComponent(Component):
    """JavaScript component that draws one packed sample. Use it through `TokenView`."""

    data = param.Dict(default={}, doc="The sample as `token_payload.pack_sample` returns it.")
    metric = param.String(default="log_ratio", doc="Requested metric; it may be missing in the sample.")
    token = param.Integer(default=-1, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    metrics = param.Dict(default={}, doc="Declarations of all token metrics, logged or not.")
    scale = param.Selector(default="run", objects=list(SCALES), doc="What the colour scale is taken from.")
    scales = param.Dict(default={}, doc="Ends of the scales as `sample_scales` returns them.")

    _esm = read_assets(*_SCRIPTS)
    _stylesheets: ClassVar[list[str]] = [token_theme(), read_assets("panels/tokens/token_view.css")]


class TokenView(pn.viewable.Viewer):
    """Token view of one sample: coloured text, heatmap of all metrics, and the values of each token.

    ``metric`` is kept when a sample lacks it: that sample is coloured by its first metric, with a message.
    ``token`` is kept when the sample changes; the caller that sets ``sample`` resets it if needed.
    """

    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="Sample to show, or None.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    token = param.Integer(default=-1, allow_None=False, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    pad_token = param.String(default="", doc="Tokens equal to it are drawn in grey; empty for none.")
    kl_estimator = param.Selector(
        default="kl_k3", objects=list(KL_ESTIMATORS), doc="Estimator shown in the KL row."
    )
    scale = param.Selector(default="run", objects=list(SCALES), doc="What the colour scale is taken from.")
    scales = param.Dict(default={}, doc="Ends of the scales as `sample_scales` returns them.")

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._component = TokenComponent(
            data=self._pack(),
            metric=self.metric,
            token=self.token,
            dark=self.dark,
            metrics=metric_declarations(),
            scale=self.scale,
            scales=self.scales,
            sizing_mode="stretch_width",
        )
        self._component.link(self, bidirectional=True, metric="metric", token="token", scale="scale")
        self.param.watch(self._update_component, ["sample", "pad_token", "kl_estimator", "dark", "scales"])

    def _pack(self) -> dict[str, Any]:
        options = {"pad_token": self.pad_token, "kl_estimator": self.kl_estimator}
        if self.sample is None:
            return pack_sample(None, **options)
        key = (current_language(), *options.values())
        return cached_on(self.sample, "packed", key, lambda: pack_sample(self.sample, **options), most=1)

    def _update_component(self, *events: param.parameterized.Event) -> None:
        changed = {event.name for event in events}
        values: dict[str, Any] = {"dark": self.dark, "scales": self.scales}
        if changed - {"dark", "scales"}:
            values["data"] = self._pack()
        self._component.param.update(**values)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._component
