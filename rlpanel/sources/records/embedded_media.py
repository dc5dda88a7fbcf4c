"""Images, audio and video of a log: where they are, without their base64 text.

Trainers and servers name a part of a message in many ways: ``{"type": "input_audio", "input_audio":
{"data", "format"}}``, ``{"type": "audio", "audio": …}``, ``{"type": "video_url", "video_url": {"url": …}}``.
Of a medium embedded as base64, type and size are kept, and a hash by which it is found in its line again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from typing import Any, NotRequired, TypedDict

from xxhash import xxh3_64_hexdigest

#: Base64 text of a medium, with its MIME type, which Qwen-Omni's addresses leave out.
_EMBEDDED = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/=_-]*)")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+=*")
#: Every text with an embedded medium contains this.
EMBEDDED_MARK = ";base64,"
#: An address of a medium that is longer than this is taken for the medium itself.
MAX_URL = 2048
#: Kinds of media that are played.
PLAYED = ("audio", "video")


class Image(TypedDict):
    """An image of a message: its MIME type if known, its address if it has one.

    An embedded image has its size in bytes, and the hash of its text in the line (see `embedded_key`).
    """

    media_type: NotRequired[str]
    url: NotRequired[str]
    size: NotRequired[int]
    key: NotRequired[str]


class Medium(Image):
    """Audio or video of a message, with the keys of an `Image`; ``kind`` is ``audio`` or ``video``."""

    kind: str


def embedded_key(source: str) -> str:
    """Return the hash of an embedded medium's text, by which it is found in its line again."""
    return xxh3_64_hexdigest(source.encode("utf-8", "surrogatepass"))


def without_embedded(text: str) -> str:
    """Replace media embedded as base64 by their type: ``[image/png]``."""
    return _EMBEDDED.sub(_mark, text) if EMBEDDED_MARK in text else text


def _mark(match: re.Match[str]) -> str:
    return f"[{match[1] or 'data'}]"


def without_embedded_values(value: Any) -> Any:
    """Replace media embedded as base64 in the texts of a nested value, also without a data URL around it."""
    if isinstance(value, str):
        if len(value) > MAX_URL and _BASE64.fullmatch(value):
            return f"[{len(value) * 3 // 4:,} bytes of base64]"
        return without_embedded(value)
    if isinstance(value, list):
        return [without_embedded_values(item) for item in value]
    if isinstance(value, dict):
        return {key: without_embedded_values(item) for key, item in value.items()}
    return value


def typed_medium(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part ``{"inlineData": {"mimeType", "data"}}`` (Gemini) with its type; others as they are."""
    source = _first(part, ("inlineData", "inline_data", "fileData", "file_data"))
    mime = _first(source, ("mimeType", "mime_type")) if isinstance(source, Mapping) else None
    if not isinstance(mime, str):
        return part
    place = _first(source, ("fileUri", "file_uri"))
    source = {"data": source.get("data")} if place is None else {"url": place}
    return {"type": mime.partition("/")[0], "source": source}


def read_image(part: Any) -> Image:
    """Return an image: a path, a data URL, or a part of a message."""
    if not isinstance(part, Mapping):
        return _place(part)
    return _place(_first(part, ("image_url", "image", "source", "url", "path", "base64")))


def is_image_part(part: Mapping[str, Any]) -> bool:
    """Return True for a part of a message that is an image."""
    return "image" in str(part.get("type", "")) or "image" in part or "image_url" in part


def played_kind(part: Mapping[str, Any]) -> str:
    """Return ``audio`` or ``video`` for a part of a message that is one; otherwise an empty text."""
    kind = _PLAYED_KINDS.get(str(part.get("type", "")))
    return kind or next((kind for name, kind in _PLAYED_KINDS.items() if name in part), "")


def _names(kind: str) -> tuple[str, str, str]:
    """Return the names of a part of this kind, and of its key that holds the medium."""
    return kind, f"input_{kind}", f"{kind}_url"


_PLAYED_KINDS = {name: kind for kind in PLAYED for name in _names(kind)}


def count_media(images: Sized, media: Iterable[Medium]) -> dict[str, float]:
    """Return the columns ``images``, ``audios`` and ``videos``, without zeros."""
    counts = Counter(f"{medium['kind']}s" for medium in media)
    counts["images"] = len(images)
    return {name: float(count) for name, count in counts.items() if count}


def read_medium(part: Any, kind: str) -> Medium:
    """Return audio or video: a path, a data URL, or a part of a message."""
    source = part
    if isinstance(part, Mapping):
        source = _first(part, (*_names(kind), "source", "url", "path"))
    return {"kind": kind, **_place(source)}


def frames_of(part: Mapping[str, Any]) -> list[Image]:
    """Return the frames of a video that was logged as a list of images; empty for other videos."""
    frames = part.get("video")
    return [read_image(frame) for frame in frames] if isinstance(frames, list) else []


def _first(part: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _place(source: Any) -> Image:
    """Return where a medium is: in its line, or at an address."""
    is_data = False
    if isinstance(source, Mapping):
        address = source.get("url", source.get("path"))
        is_data = address is None
        source = source.get("data") if address is None else address
    if not isinstance(source, str):
        return {}
    if match := _EMBEDDED.match(source):
        described: Image = {"size": len(match[2]) * 3 // 4, "key": embedded_key(source)}
        return {"media_type": match[1], **described} if match[1] else described
    if is_data or len(source) > MAX_URL:  # base64 without a data URL around it
        return {"size": len(source) * 3 // 4, "key": embedded_key(source)}
    return {"url": source}
