"""Encodes rows as lines of JSON, with tensors, arrays, NaN and infinities.

Values are duck-typed: a tensor has ``detach``, an array has ``tolist``. Neither torch nor numpy is imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.recording.writer.media_files import audio_url, is_medium
from rlpanel.recording.writer.recording_options import Options

#: Significant digits that reproduce any float32 exactly.
SIGNIFICANT = 9
#: From here on three decimals are more than `SIGNIFICANT` digits.
_LARGE = 1e6


def copy_to_host(value: Any) -> Any:
    """Copy a value to host memory, so that training may change the original afterwards."""
    if hasattr(value, "detach"):
        value = value.detach()
        on_host = getattr(getattr(value, "device", None), "type", "cpu") == "cpu"
        return value.clone() if on_host else value.cpu()
    if hasattr(value, "tolist"):
        return value.copy() if hasattr(value, "copy") else value.tolist()
    if isinstance(value, Mapping):
        return {key: copy_to_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_to_host(item) for item in value] if value and _is_nested(value[0]) else list(value)
    return value


def _is_nested(value: Any) -> bool:
    return not isinstance(value, str | int | float | None)


def count_numbers(value: Any) -> int:
    """Return roughly how many numbers a value holds, for the limit of the queue."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return 1
    try:
        return len(value)
    except TypeError:  # a tensor without dimensions
        return 1


def encode_row(
    fields: Mapping[str, Any], options: Options, save_medium: Callable[[Any], str] = repr
) -> bytes:
    """Encode a row as one line with its newline; ``NaN`` and infinities become ``null``.

    A value that is a function is called now, on the writer's thread. ``save_medium`` writes an image, audio
    or video to a file and returns its path, which stands for it in the line.
    """
    encoder = _Encoder(options, save_medium)
    row = {str(key): encoder.plain(value, top=True) for key, value in fields.items()}
    if options.tokens:
        _cut_tokens(row, options.tokens)
    # A lone surrogate cannot be encoded as UTF-8; a question mark replaces it.
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


@dataclass(frozen=True)
class _Encoder:
    """Turns the values of a row into JSON types."""

    options: Options
    save_medium: Callable[[Any], str]

    def plain(self, value: Any, *, top: bool = False) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if is_medium(value):
            return self.save_medium(value)
        if isinstance(value, str):
            most = self.options.text_chars
            return value if len(value) <= most else value[:most] + "…"
        if isinstance(value, float):
            return round_number(value)
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        if hasattr(value, "tolist"):
            return self.plain(value.tolist())
        if isinstance(value, list | tuple):
            return _numbers(value, self.options.digits) or [self.plain(item) for item in value]
        if isinstance(value, Mapping):
            if audio := audio_url(value):
                return {"url": self.save_medium(audio), "format": value["format"]}
            return {str(key): self.plain(item) for key, item in value.items()}
        if top and callable(value):
            return self.plain(value())
        return self.plain(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _numbers(values: Any, digits: int) -> list[float | None] | None:
    """Return the floats rounded, or None if not all ``values`` are floats."""
    if not all(type(value) is float for value in values):
        return None
    return [round(value, digits) if math.isfinite(value) else None for value in values]


def round_number(value: float) -> float | None:
    """Round a float to a float32's digits, or to three decimals; return None for NaN and infinities.

    Decimals matter for a time in seconds since 1970, which nine digits would round to ten seconds.
    """
    if not math.isfinite(value):
        return None
    return round(value, 3) if abs(value) >= _LARGE else float(f"{value:.{SIGNIFICANT}g}")


def _cut_tokens(row: dict[str, Any], most: int) -> None:
    """Cut the response's arrays to ``most`` tokens, and note the number of missing tokens in the row."""
    lengths = [len(row[key]) for key in _COUNTED if isinstance(row.get(key), list)]
    if not lengths or max(lengths) <= most:
        return
    for key, value in row.items():
        if isinstance(value, list) and len(value) > most and key not in _NO_TOKENS:
            row[key] = value[:most]
    row["tokens_cut"] = max(lengths) - most


#: Lists that are not about the response's tokens.
_NO_TOKENS = frozenset({"messages", "turn_rewards", "policy_version", "images", "audios", "videos"})
_COUNTED = ("response_tokens", "response_token_ids", "logprobs", "ref_logprobs", "values")
