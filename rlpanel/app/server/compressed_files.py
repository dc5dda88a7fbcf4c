"""Serves scripts and style sheets compressed: a page loads 3.4 MB of them, often through a slow tunnel.

Tornado can compress responses by itself, but it does so for each request, and on the event loop. Here a file
is compressed once, on a thread.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tornado.web import StaticFileHandler

#: Types of files that are compressed, and the smallest size in bytes for which that is worth it.
TYPES, MIN_BYTES = (".js", ".mjs", ".css", ".svg", ".json"), 1024
#: Level of gzip: the highest takes half as long again, for less than 1 % fewer bytes.
LEVEL = 6

_lock = threading.Lock()
#: Path → time of the last change in ns, and compressed content.
_compressed: dict[str, tuple[int, bytes]] = {}


def compress_routes(rules: Iterable[Any]) -> None:
    """Let the static file handlers of Tornado routes answer with compressed files.

    Parameters
    ----------
    rules : iterable of tornado.routing.Rule
    """
    for rule in rules:
        handler = rule.target
        if isinstance(handler, type) and issubclass(handler, StaticFileHandler):
            rule.target = type(f"Compressed{handler.__name__}", (CompressedFiles, handler), {})


def compressed(path: str) -> bytes | None:
    """Return a file's content in gzip format; None if compression is not worth it. Thread-safe.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    file = Path(path)
    status = file.stat()
    if file.suffix not in TYPES or status.st_size < MIN_BYTES:
        return None
    with _lock:
        changed, content = _compressed.get(path, (0, b""))
        if changed != status.st_mtime_ns:
            content = gzip.compress(file.read_bytes(), LEVEL, mtime=0)
            _compressed[path] = status.st_mtime_ns, content
    return content


class CompressedFiles(StaticFileHandler):
    """Static file handler that sends gzip to clients that accept it, unless they ask for a part of a file."""

    _content: bytes | None = None

    async def get(self, path: str, include_body: bool = True) -> None:
        """Answer a GET or HEAD request."""
        self.path = self.parse_url_path(path)
        found = self.validate_absolute_path(self.root, self.get_absolute_path(self.root, self.path))
        headers = self.request.headers
        if found is not None and "gzip" in headers.get("Accept-Encoding", "") and "Range" not in headers:
            # For large files the compression would hold the event loop.
            self._content = await asyncio.get_running_loop().run_in_executor(None, compressed, found)
        if self._content is not None:
            self.get_content = partial(_parts, self._content)  # type: ignore[method-assign,assignment]
        await super().get(path, include_body)

    def set_headers(self) -> None:
        """Add the encoding to the headers; caches must not mix it up with the plain file."""
        super().set_headers()
        self.set_header("Vary", "Accept-Encoding")
        if self._content is not None:
            self.set_header("Content-Encoding", "gzip")

    def get_content_size(self) -> int:
        """Return the number of bytes that are sent."""
        return super().get_content_size() if self._content is None else len(self._content)

    def compute_etag(self) -> str | None:
        """Return the file's tag; that of the compressed file is another one."""
        tag = super().compute_etag()
        return tag if tag is None or self._content is None else f'{tag[:-1]}-gzip"'


def _parts(content: bytes, *_: Any) -> Iterable[bytes]:
    """Return the content in parts, as Tornado sends a file: other requests are answered in between."""
    size = 64 << 10
    return (content[start : start + size] for start in range(0, len(content), size))
