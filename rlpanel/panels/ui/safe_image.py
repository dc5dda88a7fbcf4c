"""Decodes an image and encodes it again, so that nothing of a log's bytes reaches the browser."""

from __future__ import annotations

import base64
import io
import warnings

from PIL import Image, ImageOps, UnidentifiedImageError

#: Formats of pixels only; SVG and documents are none of them.
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
#: Pixels of an image, and the longest side of a thumbnail and of the full size.
MAX_PIXELS = 50_000_000
THUMBNAIL, FULL = 480, 2400
_QUALITY = 88


class BadImage(ValueError):
    """The bytes are no image that can be shown."""


def image_url(data: bytes, *, longest: int = THUMBNAIL) -> str:
    """Return an image as a data URL: PNG, or JPEG without transparency if that is smaller.

    Parameters
    ----------
    data : bytes
        An image file in one of six formats; of an animation the first frame is taken.
    longest : int
        Pixels of the longest side at most; larger images are made smaller.

    Raises
    ------
    BadImage
        If the bytes are no image of these formats, are damaged, or have too many pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about sizes below our limit and odd metadata
            return _encoded(_decoded(data, longest))
    except UnidentifiedImageError as error:
        raise BadImage("not an image in a known format") from error
    except BadImage:
        raise
    except Exception as error:  # decoders raise errors of many kinds for damaged files
        raise BadImage(f"the image is damaged: {error}") from error


def _decoded(data: bytes, longest: int) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise BadImage(f"the image has {width:,} × {height:,} pixels; the limit is {MAX_PIXELS:,}")
        image.draft("RGB", (longest, longest))
        image.load()
        upright = ImageOps.exif_transpose(image)
        upright.thumbnail((longest, longest))
        has_alpha = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
        return upright.convert("RGBA" if has_alpha else "RGB")


def _encoded(image: Image.Image) -> str:
    made = [("png", _saved(image, "PNG", optimize=False))]
    if image.mode == "RGB":
        made.append(("jpeg", _saved(image, "JPEG", quality=_QUALITY)))
    kind, data = min(made, key=lambda each: len(each[1]))
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _saved(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
