"""Images of a log are decoded and encoded again; what is no image, or too large, is refused."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from rlpanel.panels.ui.safe_image import FULL, THUMBNAIL, BadImage, image_url


def encoded(size: tuple[int, int] = (8, 4), mode: str = "RGB", kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise(size, 60).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(url: str) -> Image.Image:
    head, _, data = url.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_usual_formats_are_shown_in_a_size_that_fits(kind: str) -> None:
    data = encoded((1000, 500), kind=kind)
    assert decoded(image_url(data, longest=THUMBNAIL)).size == (THUMBNAIL, THUMBNAIL // 2)
    assert decoded(image_url(data, longest=FULL)).size == (1000, 500)


def test_the_full_size_is_bounded_too() -> None:
    assert max(decoded(image_url(encoded((3000, 10)), longest=FULL)).size) == FULL


def test_transparency_stays() -> None:
    assert decoded(image_url(encoded(mode="RGBA"), longest=THUMBNAIL)).mode == "RGBA"


def test_the_logs_own_bytes_never_reach_the_page() -> None:
    """A comment with a script inside of a valid file is gone after decoding."""
    secret = b"<script>ran=1</script>"
    data = encoded(kind="JPEG", comment=secret)
    assert secret in data
    assert secret not in base64.b64decode(image_url(data, longest=FULL).partition(",")[2])


def huge_png() -> bytes:
    """A file of a few bytes that says it has a billion pixels."""
    header = struct.pack(">IIBBBBB", 40_000, 30_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an image",
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>ran=1</script></svg>',
        b"%PDF-1.4",
        encoded((200, 200))[:-3000],
        huge_png(),
    ],
    ids=["empty", "text", "SVG", "PDF", "cut", "a billion pixels"],
)
def test_anything_else_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(BadImage, match=r"\w"):
        image_url(data, longest=THUMBNAIL)
