"""Encodes rows as lines of JSON, with tensors, arrays, NaN and infinities, and names the keys of a line."""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpanel.recording.writer.recording_options import Options
from rlpanel.safe_files import SafeFolder

# -- encode --------------------------------------------------------------------------------------------
# Encodes rows as lines of JSON, with tensors, arrays, NaN and infinities.
#
# Values are duck-typed: a tensor has ``detach``, an array has ``tolist``. Neither torch nor numpy is
# imported.
#
# Writes the media of rows to files beside the log, so that a line holds their paths, not their bytes.


#: Folders of images, and of audio and video, below the run's folder.
IMAGES, PLAYED = "images", "media"
_DATA_URL = "data:image/"
_DATA_URLS = (_DATA_URL, "data:audio/", "data:video/")
#: First bytes of a file, or those from an offset → its suffix.
_SUFFIXES = (
    (0, b"\x89PNG", "png"),
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"GIF8", "gif"),
    (8, b"WEBP", "webp"),
    (8, b"WAVE", "wav"),
    (0, b"fLaC", "flac"),
    (0, b"OggS", "ogg"),
    (0, b"ID3", "mp3"),
    (4, b"ftyp", "mp4"),
    (0, b"\x1a\x45\xdf\xa3", "webm"),
)


def is_medium(value: Any) -> bool:
    """Return True for a PIL image, and for a data URL of an image, audio or video."""
    if isinstance(value, str):
        return value.startswith(_DATA_URLS)
    return hasattr(value, "save") and hasattr(value, "getbands")


def audio_url(part: Mapping[Any, Any]) -> str:
    """Return the audio of OpenAI's ``{"data": base64, "format": …}`` as a data URL; empty for all else."""
    if part.keys() != {"data", "format"} or not all(isinstance(value, str) for value in part.values()):
        return ""
    return part["data"] if part["data"].startswith("data:") else f"data:audio/x;base64,{part['data']}"


class MediaFiles:
    """Media files of a run, named after a hash of their content: the same medium is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def save(self, medium: Any) -> str:
        """Write a medium unless it was written before; return its path below the run's folder.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If a data URL is damaged.
        """
        content = _content(medium)
        is_image = not isinstance(medium, str) or medium.startswith(_DATA_URL)
        below, other = (IMAGES, "img") if is_image else (PLAYED, "bin")
        suffix = next((suffix for at, magic, suffix in _SUFFIXES if content.startswith(magic, at)), other)
        name = f"{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
        if name not in self._written:
            with SafeFolder.open(self._folder) as run, run.subfolder_to_write(below) as folder:
                if folder.status(name) is None:
                    folder.replace(name, content)
            self._written.add(name)
        return f"{below}/{name}"


def _content(medium: Any) -> bytes:
    if isinstance(medium, str):
        try:
            return base64.b64decode(medium.partition(",")[2], validate=True)
        except binascii.Error as error:
            raise ValueError(f"a data URL is damaged: {error}") from error
    buffer = io.BytesIO()
    medium.save(buffer, format="PNG")
    return buffer.getvalue()


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


# -- log keys ------------------------------------------------------------------------------------------
# The keys of a line of the log, for a recorder that runs without numpy; a test compares the schema.


#: Names and aliases of `rlpanel.schema.FIELDS`, and what the recorder and the reader add.
KNOWN_KEYS = frozenset(
    [
        "advantage",
        "advantages",
        "agent",
        "audios",
        "branch",
        "branch_kind",
        "correction_weights",
        "entropies",
        "entropy",
        "episode",
        "experts",
        "finish_reason",
        "ground_truth",
        "group",
        "group_id",
        "images",
        "is_filter_drop",
        "is_masked",
        "judge",
        "judge_calls",
        "logprobs",
        "loss_mask",
        "messages",
        "new_logprobs",
        "old_logprobs",
        "parent",
        "policy_version",
        "prompt",
        "rank",
        "ref_logprobs",
        "ref_response",
        "ref_reward",
        "ref_valid_reward",
        "response",
        "response_token_ids",
        "response_tokens",
        "returns",
        "reward",
        "rewards",
        "rollout_experts",
        "rollout_is_weights",
        "rollout_logprobs",
        "rollout_routed_experts",
        "routed_experts",
        "routing_mismatch",
        "session",
        "split",
        "status",
        "status_reason",
        "step",
        "teacher_log_probs",
        "teacher_logprobs",
        "teacher_logps",
        "time",
        "timing",
        "tis_weights",
        "token_rewards",
        "top_logprobs",
        "trainer_version",
        "trajectory",
        "truncated",
        "turn_rewards",
        "valid_reward",
        "values",
        "verifier",
        "videos",
    ]
)
#: Share of equal characters from which a key is taken for a misspelt one.
_CLOSE = 0.82


def meant_key(key: str) -> str:
    """Return the known key that an unknown one looks like; empty if the key is known or like no other."""
    name = key.lower()
    if name in KNOWN_KEYS or any(name.startswith(f"{known}_") for known in KNOWN_KEYS):
        return ""
    return next(iter(difflib.get_close_matches(name, sorted(KNOWN_KEYS), n=1, cutoff=_CLOSE)), "")
